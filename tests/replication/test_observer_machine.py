"""An observer of a model quorum at random: leaders change and lose records, snapshots replace records, requests get
lost, late or doubled, and the observer's process crashes."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from replication.metadata_quorum import CONTROLLERS, ModelLog, Quorum, from_bytes
from state_machines import run_machine
from tidelog.replication.broker_lifecycle import StopBroker
from tidelog.replication.follower_commands import Append, SetHighWatermark, TruncateTo
from tidelog.replication.metadata_observer import MetadataObserver, ObserverSettings
from tidelog.replication.observer_messages import (
    UNKNOWN,
    AddToSnapshot,
    AnnounceLeader,
    BeginSnapshot,
    DropSnapshot,
    InstallSnapshot,
    ObserverCommand,
    QuorumNode,
    SendFetch,
    SendFetchSnapshot,
    WriteQuorumState,
)

controllers = st.sampled_from(CONTROLLERS)


class ObserverMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.random = Random(1)
        self.quorum = Quorum()
        self.log = ModelLog()
        self.quorum_state = (UNKNOWN, 0)
        self.announced: QuorumNode | None = None
        self.requests: list[SendFetch | SendFetchSnapshot] = []
        """Requests that the network holds, and doubles of them."""
        self.partial: dict[str, bytes] = {}
        """The temporary file of the snapshot, if there is one."""
        self.high_watermark: int | None = None
        self.truncations = self.snapshots = 0
        self.boot()
        self.elect(CONTROLLERS[0], 0)
        self.commit()

    def boot(self) -> None:
        settings = ObserverSettings(node_id=1, bootstrap=self.quorum.bootstrap)
        self.core = MetadataObserver(self.log, settings, self.random.randrange)
        self.partial.clear()
        self.requests.clear()  # its connections have ended with the process
        self.high_watermark = None
        leader_id, epoch = self.quorum_state
        self.take(self.core.start(epoch=epoch, leader_id=leader_id, voters={}))

    # --- the driver ---

    def take(self, commands: Iterable[ObserverCommand]) -> None:
        for command in commands:
            match command:
                case SendFetch() | SendFetchSnapshot():
                    assert command.request.leader_epoch == self.quorum_state[1]  # durable before it is used
                    self.requests.append(command)
                case WriteQuorumState(leader_id, epoch):
                    assert epoch >= self.quorum_state[1]
                    self.quorum_state = (leader_id, epoch)
                case AnnounceLeader(leader, epoch):
                    assert epoch == self.quorum_state[1]
                    assert leader is None or leader.id == self.quorum_state[0]
                    self.announced = leader
                case BeginSnapshot():
                    assert not self.partial
                    self.partial["file"] = b""
                case AddToSnapshot(_, position, data):
                    assert position == len(self.partial["file"])
                    self.partial["file"] += data
                case DropSnapshot():
                    del self.partial["file"]
                case SetHighWatermark():
                    assert command.offset <= self.log.end_offset
                    assert self.high_watermark is None or command.offset > self.high_watermark
                    self.high_watermark = command.offset
                case Append() | TruncateTo() | InstallSnapshot():
                    self.write(command)
                case StopBroker(reason):
                    raise AssertionError(reason)

    def write(self, change: Append | TruncateTo | InstallSnapshot) -> None:
        match change:
            case Append():
                entries = from_bytes(bytes(change.records))
                assert all(entry.epoch <= self.quorum_state[1] for entry in entries)
                self.log.entries += entries
            case TruncateTo(offset=offset):
                self.truncations += offset < self.log.end_offset
                assert self.log.start.end_offset <= offset
                self.log.truncate_to(offset)
            case InstallSnapshot(snapshot_id, size):
                data = self.partial.pop("file")
                assert size == len(data)
                self.snapshots += 1
                self.log.start_at(snapshot_id, from_bytes(data))
        self.take(self.core.written())

    @rule()
    def poll(self) -> None:
        self.take(self.core.poll(self.now_ms))

    @rule(ms=st.sampled_from([1, 20, 500, 2000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.poll()

    @rule(loses=st.booleans(), doubles=st.booleans())
    def deliver(self, loses: bool = False, doubles: bool = False) -> None:
        """Deliver the oldest request. The response may get lost, and the request may be doubled."""
        if not self.requests:
            return
        sent = self.requests.pop(0)
        node = sent.node.id if sent.node.id > 0 else -1 - sent.node.id
        for _ in range(1 + doubles):
            if isinstance(sent, SendFetch):
                fetched = self.quorum.fetch(node, sent.request)
                self.take([] if loses else self.core.fetched(sent.number, fetched, self.now_ms))
            else:
                piece = self.quorum.fetch_snapshot(node, sent.request)
                self.take([] if loses else self.core.fetched_snapshot(sent.number, piece, self.now_ms))
        self.poll()

    @rule()
    def lose(self) -> None:
        if self.requests:
            self.take(self.core.fail_request(self.requests.pop().number, self.now_ms))
            self.poll()

    @rule(keeps=st.integers(0, 10))
    def crash(self, keeps: int) -> None:
        """Lose records that were not synced. Only the snapshot is durable."""
        self.log.truncate_to(self.log.start.end_offset + keeps)
        self.boot()

    # --- the quorum ---

    @rule(leader=controllers, lost=st.integers(0, 4))
    def elect(self, leader: int, lost: int) -> None:
        self.quorum.elect(leader, lost)

    @rule(node=controllers)
    def inform(self, node: int) -> None:
        self.quorum.inform(node)

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        self.quorum.append(count)

    @rule()
    def commit(self) -> None:
        self.quorum.commit()

    @rule(share=st.integers(1, 4))
    def snapshot(self, share: int) -> None:
        self.quorum.snapshot(self.quorum.committed * share // 4)

    @rule()
    def fetch_on(self) -> None:
        """Let the observer come further, without faults."""
        for _ in range(5):
            self.now_ms += 20
            self.poll()
            self.deliver()

    # --- invariants ---

    @invariant()
    def committed_records_are_the_quorums(self) -> None:
        """The observer's records below its high watermark are committed by the quorum."""
        if self.high_watermark is None:
            return
        assert self.high_watermark <= self.quorum.committed
        ours, theirs = self.log.everything, self.quorum.log.everything
        assert ours[: self.high_watermark] == theirs[: self.high_watermark]

    @invariant()
    def the_core_and_its_driver_agree(self) -> None:
        assert (self.core.leader_id, self.core.epoch) == self.quorum_state
        assert self.core.leader == self.announced
        assert self.core.high_watermark == self.high_watermark
        assert self.core.next_poll_ms is not None

    @invariant()
    def epochs_do_not_fall_in_the_log(self) -> None:
        epochs = [entry.epoch for entry in self.log.everything]
        assert epochs == sorted(epochs)
        assert self.core.epoch >= self.log.last_epoch

    def teardown(self) -> None:
        """Require that the observer has the leader's log once the quorum is calm and no request gets lost."""
        self.commit()
        for node in CONTROLLERS:
            self.inform(node)
        for _ in range(150):
            self.now_ms += 20
            self.poll()
            self.deliver()
        assert self.log.everything == self.quorum.log.everything
        assert self.high_watermark == self.quorum.committed
        assert self.announced == self.quorum.node(self.quorum.leader_id)


def test_an_observer_at_random() -> None:
    run_machine(ObserverMachine, steps=50, examples=150)
