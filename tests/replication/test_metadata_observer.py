"""The observer of the metadata log: leaders and epochs, truncation, snapshots, the high watermark, errors and times."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from replication.metadata_quorum import Entry, ModelLog, Quorum, from_bytes, to_bytes
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.replication.broker_lifecycle import StopBroker
from tidelog.replication.follower_commands import Append, SetHighWatermark, TruncateTo
from tidelog.replication.metadata_observer import MetadataObserver, ObserverSettings
from tidelog.replication.observer_messages import (
    UNKNOWN,
    AddToSnapshot,
    AnnounceLeader,
    AvoidNode,
    BeginSnapshot,
    DropSnapshot,
    FetchedMetadata,
    FetchedSnapshot,
    InstallSnapshot,
    MetadataFetch,
    ObserverCommand,
    QuorumNode,
    SendFetch,
    SendFetchSnapshot,
    SnapshotFetch,
    WriteQuorumState,
)
from tidelog.storage.epoch import EpochEndOffset

BOOTSTRAP = [QuorumNode(-2, "b1", 9093), QuorumNode(-3, "b2", 9093), QuorumNode(-4, "b3", 9093)]
LEADER = QuorumNode(3000, "leader", 9093)
OTHER = QuorumNode(3001, "other", 9093)
ENDPOINTS = {node.id: node for node in (LEADER, OTHER)}
TIMEOUT_MS, BACKOFF_MS = 2000, 20
SNAPSHOT = SnapshotId(4, 2)


class Observer:
    """An observer whose driver keeps a model log. It notes the commands of each event."""

    def __init__(self, log: ModelLog | None = None, *, epoch: int = 0, leader_id: int = UNKNOWN) -> None:
        self.log = log or ModelLog()
        settings = ObserverSettings(
            node_id=1, bootstrap=BOOTSTRAP, request_timeout_ms=TIMEOUT_MS, retry_backoff_ms=BACKOFF_MS
        )
        self.choices: list[int] = []
        self.core = MetadataObserver(self.log, settings, self.choose)
        self.now_ms = 1000
        self.commands: list[ObserverCommand] = []
        """All commands, apart from requests."""
        self.sent: list[SendFetch | SendFetchSnapshot] = []
        self.pieces = b""
        self.refuses = False
        self.take(self.core.start(epoch=epoch, leader_id=leader_id, voters=ENDPOINTS))

    def choose(self, count: int) -> int:
        return self.choices.pop(0) % count if self.choices else 0

    def take(self, commands: Iterable[ObserverCommand]) -> None:
        for command in commands:
            if isinstance(command, SendFetch | SendFetchSnapshot):
                self.sent.append(command)
                continue
            self.commands.append(command)
            match command:
                case BeginSnapshot():
                    self.pieces = b""
                case AddToSnapshot(_, position, data):
                    assert position == len(self.pieces)
                    self.pieces += data
                case Append() | TruncateTo() | InstallSnapshot():
                    self.write(command)

    def write(self, change: Append | TruncateTo | InstallSnapshot) -> None:
        assert self.core.next_poll_ms is None
        assert self.core.poll(self.now_ms) == []
        if self.refuses:
            self.take(self.core.refused(self.now_ms))
            return
        match change:
            case Append():
                self.log.entries += from_bytes(bytes(change.records))
            case TruncateTo():
                self.log.truncate_to(change.offset)
            case InstallSnapshot(snapshot_id, size):
                assert size == len(self.pieces)
                self.log.start_at(snapshot_id, from_bytes(self.pieces))
        self.take(self.core.written())

    def poll(self) -> SendFetch | SendFetchSnapshot:
        """Return the next request; it is due now."""
        assert self.core.next_poll_ms is not None
        assert self.core.next_poll_ms <= self.now_ms
        before = len(self.sent)
        self.take(self.core.poll(self.now_ms))
        assert len(self.sent) == before + 1
        return self.sent[-1]

    def gets(self, **fields: Any) -> list[ObserverCommand]:
        """Send the next request if none is in flight; it gets the response. Return the commands of the response."""
        if self.core.next_poll_ms is not None and self.core.next_poll_ms <= self.now_ms:
            self.poll()
        fields = {"leader_id": LEADER.id, "leader_epoch": self.core.epoch, "endpoints": ENDPOINTS, **fields}
        before = len(self.commands)
        if isinstance(self.sent[-1], SendFetchSnapshot):
            answer = FetchedSnapshot(**fields)
            self.take(self.core.fetched_snapshot(self.sent[-1].number, answer, self.now_ms))
        else:
            self.take(self.core.fetched(self.sent[-1].number, FetchedMetadata(**fields), self.now_ms))
        return self.commands[before:]


def observer_of(*epochs: int, high_watermark: int | None = None) -> Observer:
    """Return an observer that follows LEADER in epoch 5. Its log has a record of each epoch."""
    observer = Observer(ModelLog(entries=entries_of(*epochs)), epoch=5, leader_id=LEADER.id)
    if high_watermark is not None:
        observer.gets(high_watermark=high_watermark)
    observer.commands.clear()
    return observer


def entries_of(*epochs: int) -> list[Entry]:
    return [Entry(epoch, number) for number, epoch in enumerate(epochs)]


def avoided(observer: Observer, node: QuorumNode, error: ErrorCode) -> AvoidNode:
    return AvoidNode(node, error, observer.now_ms + BACKOFF_MS)


class TestStart:
    def test_without_a_state_it_asks_a_bootstrap_server(self) -> None:
        observer = Observer()
        assert observer.commands == [WriteQuorumState(UNKNOWN, 0), AnnounceLeader(None, 0)]
        observer.choices = [1]
        sent = observer.poll()
        assert sent == SendFetch(
            1,
            BOOTSTRAP[1],
            MetadataFetch(leader_epoch=0, offset=0, last_fetched_epoch=0, high_watermark=-1),
            observer.now_ms + TIMEOUT_MS,
        )
        assert observer.core.poll(observer.now_ms) == []

    def test_with_a_leader_it_fetches_from_it(self) -> None:
        observer = Observer(ModelLog(entries=entries_of(1, 4)), epoch=5, leader_id=LEADER.id)
        assert observer.commands == [WriteQuorumState(LEADER.id, 5), AnnounceLeader(LEADER, 5)]
        sent = observer.poll()
        assert (sent.node, sent.request) == (LEADER, MetadataFetch(leader_epoch=5, offset=2, last_fetched_epoch=4))

    def test_a_leader_without_an_address_is_unknown(self) -> None:
        observer = Observer(epoch=5, leader_id=9)
        assert observer.commands == [WriteQuorumState(9, 5), AnnounceLeader(None, 5)]
        assert observer.poll().node in BOOTSTRAP

    def test_a_state_older_than_the_log_counts_for_nothing(self) -> None:
        observer = Observer(ModelLog(entries=entries_of(6)), epoch=5, leader_id=LEADER.id)
        assert observer.commands == [WriteQuorumState(UNKNOWN, 6), AnnounceLeader(None, 6)]

    def test_above_a_snapshot_the_last_epoch_is_the_snapshots(self) -> None:
        observer = Observer(ModelLog(start=SNAPSHOT), epoch=5, leader_id=LEADER.id)
        assert observer.poll().request == MetadataFetch(leader_epoch=5, offset=4, last_fetched_epoch=2)


class TestLeaders:
    def test_a_bootstrap_server_names_the_leader(self) -> None:
        observer = Observer()
        found = observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=7)
        assert found == [WriteQuorumState(LEADER.id, 7), AnnounceLeader(LEADER, 7)]
        assert observer.poll().node == LEADER

    def test_it_may_name_no_leader_yet(self) -> None:
        observer = Observer()
        found = observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=7, leader_id=UNKNOWN)
        assert found == [WriteQuorumState(UNKNOWN, 7), AnnounceLeader(None, 7)]
        found = observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=7)
        assert found == [WriteQuorumState(LEADER.id, 7), AnnounceLeader(LEADER, 7)]

    def test_the_leader_itself_may_be_a_bootstrap_server(self) -> None:
        observer = Observer()
        observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=7, leader_id=UNKNOWN)
        found = observer.gets(leader_epoch=7, records=to_bytes(entries_of(7)), high_watermark=1)
        assert found[:2] == [WriteQuorumState(LEADER.id, 7), AnnounceLeader(LEADER, 7)]
        assert found[-1] == SetHighWatermark(offset=1)
        assert observer.log.end_offset == 1

    @pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
    def test_a_newer_epoch_is_followed_and_its_contents_wait(self, error: ErrorCode) -> None:
        observer = observer_of(1)
        records = to_bytes(entries_of(6))
        found = observer.gets(error=error, leader_epoch=6, leader_id=OTHER.id, records=records)
        assert found == [WriteQuorumState(OTHER.id, 6), AnnounceLeader(OTHER, 6)]
        assert observer.log.end_offset == 1
        assert (observer.poll().node, observer.core.epoch) == (OTHER, 6)

    def test_a_newer_epoch_without_a_leader(self) -> None:
        observer = observer_of(1)
        found = observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=6, leader_id=UNKNOWN)
        assert found == [WriteQuorumState(UNKNOWN, 6), AnnounceLeader(None, 6)]
        assert observer.poll().node in BOOTSTRAP

    @pytest.mark.parametrize(
        "fields",
        [
            {"leader_epoch": 4, "records": to_bytes(entries_of(4))},
            {"leader_epoch": 4, "error": ErrorCode.NOT_LEADER_OR_FOLLOWER, "leader_id": OTHER.id},
            {"error": ErrorCode.UNKNOWN_LEADER_EPOCH},
            {"leader_epoch": 6, "error": ErrorCode.UNKNOWN_LEADER_EPOCH, "leader_id": OTHER.id},
        ],
    )
    def test_an_older_epoch_is_ignored(self, fields: dict[str, Any]) -> None:
        observer = observer_of(1)
        found = observer.gets(**fields)
        assert found == [avoided(observer, LEADER, fields.get("error", ErrorCode.NONE))]
        assert (observer.core.epoch, observer.core.leader, observer.log.end_offset) == (5, LEADER, 1)

    def test_two_leaders_of_an_epoch_are_fatal(self) -> None:
        observer = observer_of(1)
        found = observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=OTHER.id)
        assert found == [StopBroker("epoch 5 has two leaders, 3000 and 3001")]
        assert observer.core.next_poll_ms is None
        assert observer.core.poll(observer.now_ms + 10**6) == []

    def test_an_observer_is_no_leader(self) -> None:
        assert observer_of(1).gets(leader_epoch=6, leader_id=1) == [
            StopBroker("the quorum names this node, an observer, as the leader of epoch 6")
        ]

    def test_addresses_come_from_the_response_or_from_the_voters(self) -> None:
        observer = observer_of()
        moved = QuorumNode(OTHER.id, "moved", 1)
        observer.gets(leader_epoch=6, leader_id=OTHER.id, endpoints={OTHER.id: moved})
        assert observer.core.leader == moved
        voter = QuorumNode(77, "voter", 1)
        observer.core.see_voters({voter.id: voter})
        observer.gets(leader_epoch=7, leader_id=voter.id, endpoints={})
        assert observer.core.leader == voter
        observer.gets(leader_epoch=8, leader_id=78, endpoints={})
        assert observer.commands[-1] == AnnounceLeader(None, 8)
        assert observer.core.leader_id == 78
        again = observer.gets(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=8, leader_id=78, endpoints={})
        assert again == [avoided(observer, BOOTSTRAP[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert observer.gets(leader_epoch=8, leader_id=78, endpoints={78: moved})[1] == AnnounceLeader(moved, 8)


class TestRecords:
    def test_records_are_appended_and_then_the_high_watermark_follows(self) -> None:
        observer = observer_of(1)
        records = to_bytes([Entry(5, 8), Entry(5, 9)])
        found = observer.gets(records=records, high_watermark=2)
        assert found == [Append(records=records, leader_epoch=5), SetHighWatermark(offset=2)]
        assert observer.core.high_watermark == 2
        assert observer.poll().request == MetadataFetch(
            leader_epoch=5, offset=3, last_fetched_epoch=5, high_watermark=2
        )

    @pytest.mark.parametrize(
        ("leaders", "known", "after"),
        [(-1, None, None), (-1, 1, 1), (0, None, 0), (1, None, 1), (9, None, 2), (9, 1, 2), (2, 2, 2)],
    )
    def test_the_high_watermark(self, leaders: int, known: int | None, after: int | None) -> None:
        observer = observer_of(1, 1, high_watermark=known)
        found = observer.gets(high_watermark=leaders)
        assert observer.core.high_watermark == after
        assert found == ([] if after == known else [SetHighWatermark(offset=after)])  # type: ignore[arg-type]

    def test_a_high_watermark_that_falls_is_fatal(self) -> None:
        observer = observer_of(1, 1, high_watermark=2)
        assert observer.gets(high_watermark=1) == [StopBroker("the leader's high watermark fell from 2 to 1")]

    def test_it_stays_known_under_a_new_leader(self) -> None:
        observer = observer_of(1, 1, high_watermark=2)
        observer.gets(leader_epoch=6, leader_id=OTHER.id)
        assert observer.core.high_watermark == 2

    def test_invalid_records_are_fetched_again_later(self) -> None:
        observer = observer_of(1)
        observer.refuses = True
        observer.gets(records=b"?", high_watermark=5)
        assert observer.core.high_watermark == 1
        assert observer.poll().node in BOOTSTRAP
        observer.now_ms += TIMEOUT_MS
        assert observer.poll().node == LEADER


class TestTruncation:
    @pytest.mark.parametrize(
        ("epochs", "diverging", "offset"),
        [
            ((1, 1, 3, 3), EpochEndOffset(3, 3), 3),
            ((1, 1, 3, 3), EpochEndOffset(3, 9), 4),
            ((1, 1, 3, 3), EpochEndOffset(2, 3), 2),
            ((1, 1, 3, 3), EpochEndOffset(1, 1), 1),
            ((0, 0, 3), EpochEndOffset(0, 2), 2),
            ((0, 0, 3), EpochEndOffset(0, 9), 3),
            ((3, 3), EpochEndOffset(2, 0), 2),
        ],
    )
    def test_to_the_end_of_the_common_epoch(
        self, epochs: tuple[int, ...], diverging: EpochEndOffset, offset: int
    ) -> None:
        observer = observer_of(*epochs)
        (truncation,) = observer.gets(diverging=diverging, records=b"?", high_watermark=1)
        assert isinstance(truncation, TruncateTo)
        assert truncation.offset == offset
        assert observer.core.high_watermark is None

    def test_below_the_high_watermark_is_fatal(self) -> None:
        observer = observer_of(1, 1, 3, 3, high_watermark=3)
        (stop,) = observer.gets(diverging=EpochEndOffset(3, 2))
        assert isinstance(stop, StopBroker)
        assert "below the high watermark 3" in stop.reason
        assert observer.log.end_offset == 4

    def test_to_an_older_epoch_below_the_high_watermark_is_fatal(self) -> None:
        observer = observer_of(1, 1, 3, 3, high_watermark=3)
        assert observer.gets(diverging=EpochEndOffset(2, 3)) == [
            StopBroker("a truncation to 2 would remove committed records below 3")
        ]

    def test_exactly_to_the_high_watermark(self) -> None:
        observer = observer_of(1, 1, 3, 3, high_watermark=3)
        (truncation,) = observer.gets(diverging=EpochEndOffset(3, 3))
        assert isinstance(truncation, TruncateTo)
        assert not truncation.is_below_high_watermark


class TestSnapshots:
    def fetching(self, *epochs: int) -> Observer:
        """Return an observer that has begun to fetch SNAPSHOT."""
        observer = observer_of(*epochs)
        assert observer.gets(snapshot_id=SNAPSHOT) == [BeginSnapshot(SNAPSHOT)]
        return observer

    def test_piece_by_piece_then_the_log_starts_at_its_end(self) -> None:
        observer = self.fetching(1)
        contents = to_bytes(entries_of(1, 1, 2, 2))
        cuts = [0, 20, 21, len(contents)]
        found: list[ObserverCommand] = []
        for start, end in itertools.pairwise(cuts):
            sent = observer.poll()
            assert sent.node == LEADER
            assert sent.request == SnapshotFetch(leader_epoch=5, snapshot_id=SNAPSHOT, position=start)
            found = observer.gets(snapshot_id=SNAPSHOT, position=start, size=len(contents), data=contents[start:end])
        assert found == [
            AddToSnapshot(SNAPSHOT, 21, contents[21:]),
            InstallSnapshot(SNAPSHOT, len(contents)),
            SetHighWatermark(offset=4),
        ]
        assert observer.log.below == entries_of(1, 1, 2, 2)
        assert observer.poll().request == MetadataFetch(
            leader_epoch=5, offset=4, last_fetched_epoch=2, high_watermark=4
        )

    def test_one_that_the_log_has_is_not_fetched(self) -> None:
        observer = Observer(ModelLog(start=SNAPSHOT), epoch=5, leader_id=LEADER.id)
        assert observer.gets(snapshot_id=SNAPSHOT)[-1] == avoided(observer, LEADER, ErrorCode.NONE)
        assert isinstance(observer.poll(), SendFetch)

    @pytest.mark.parametrize("snapshot_id", [SnapshotId(-1, 2), SnapshotId(4, -1)])
    def test_a_half_of_an_id_is_no_id(self, snapshot_id: SnapshotId) -> None:
        observer = observer_of(1)
        assert observer.gets(snapshot_id=snapshot_id) == [avoided(observer, LEADER, ErrorCode.NONE)]

    @pytest.mark.parametrize(
        "fields",
        [
            {"error": ErrorCode.SNAPSHOT_NOT_FOUND, "snapshot_id": SNAPSHOT},
            {"snapshot_id": None},
            {"snapshot_id": SnapshotId(-1, 2)},
            {"snapshot_id": SnapshotId(4, -1)},
        ],
    )
    def test_a_leader_without_it_is_asked_for_records_again(self, fields: dict[str, Any]) -> None:
        observer = self.fetching(1)
        assert observer.gets(**fields) == [DropSnapshot(SNAPSHOT)]
        sent = observer.poll()
        assert isinstance(sent, SendFetch)
        assert sent.node == LEADER

    @pytest.mark.parametrize(
        "fields",
        [
            {"snapshot_id": SnapshotId(5, 2)},
            {"position": 1},
            {"data": b"too long"},
        ],
    )
    def test_an_unexpected_piece_ends_it(self, fields: dict[str, Any]) -> None:
        observer = self.fetching(1)
        fields = {"snapshot_id": SNAPSHOT, "position": 0, "size": 4, "data": b"1234"} | fields
        found = observer.gets(**fields)
        assert found == [DropSnapshot(SNAPSHOT), avoided(observer, LEADER, ErrorCode.INVALID_REQUEST)]

    def test_another_error_or_a_piece_without_bytes_backs_off(self) -> None:
        observer = self.fetching(1)
        error = ErrorCode.POSITION_OUT_OF_RANGE
        assert observer.gets(error=error, snapshot_id=SNAPSHOT) == [avoided(observer, LEADER, error)]
        observer.now_ms += BACKOFF_MS
        sent = observer.poll()
        assert sent.request == SnapshotFetch(leader_epoch=5, snapshot_id=SNAPSHOT, position=0)
        found = observer.gets(snapshot_id=SNAPSHOT, size=10)
        assert found == [avoided(observer, LEADER, ErrorCode.NONE)]

    @pytest.mark.parametrize("leader", [OTHER, None])
    def test_another_epoch_ends_it(self, leader: QuorumNode | None) -> None:
        observer = self.fetching(1)
        leader_id = UNKNOWN if leader is None else leader.id
        found = observer.gets(error=ErrorCode.FENCED_LEADER_EPOCH, leader_epoch=6, leader_id=leader_id)
        assert found == [DropSnapshot(SNAPSHOT), WriteQuorumState(leader_id, 6), AnnounceLeader(leader, 6)]
        sent = observer.poll()
        assert isinstance(sent, SendFetch)
        assert sent.node == (leader or BOOTSTRAP[0])

    def test_a_piece_of_an_older_epoch_is_ignored(self) -> None:
        observer = self.fetching(1)
        found = observer.gets(snapshot_id=SNAPSHOT, leader_epoch=4, size=4, data=b"1234")
        assert found == [avoided(observer, LEADER, ErrorCode.NONE)]
        observer.now_ms += BACKOFF_MS
        assert observer.poll().request == SnapshotFetch(leader_epoch=5, snapshot_id=SNAPSHOT, position=0)

    def test_a_fetch_meanwhile_ends_it(self) -> None:
        observer = self.fetching(1)
        observer.poll()
        observer.now_ms += TIMEOUT_MS
        assert isinstance(observer.poll(), SendFetch)
        found = observer.gets(snapshot_id=SNAPSHOT)
        assert found == [DropSnapshot(SNAPSHOT), BeginSnapshot(SNAPSHOT)]

    def test_an_invalid_one_is_removed(self) -> None:
        observer = self.fetching(1)
        observer.refuses = True
        found = observer.gets(snapshot_id=SNAPSHOT, size=1, data=b"?")
        assert found[1:] == [InstallSnapshot(SNAPSHOT, 1), DropSnapshot(SNAPSHOT)]
        observer.now_ms += BACKOFF_MS
        assert isinstance(observer.poll(), SendFetch)

    def test_the_log_must_start_there(self) -> None:
        observer = self.fetching(1)
        number = observer.poll().number
        answer = FetchedSnapshot(leader_id=LEADER.id, leader_epoch=5, snapshot_id=SNAPSHOT, size=1, data=b"?")
        observer.core.fetched_snapshot(number, answer, observer.now_ms)
        (stop,) = observer.core.written()  # the log still ends at 1
        assert isinstance(stop, StopBroker)
        assert "the log ends at 1" in stop.reason


class TestErrorsAndTimes:
    def test_one_request_is_in_flight_until_its_deadline(self) -> None:
        observer = observer_of(1)
        sent = observer.poll()
        assert observer.core.next_poll_ms == sent.deadline_ms == observer.now_ms + TIMEOUT_MS
        assert observer.core.poll(sent.deadline_ms - 1) == []

    def test_a_silent_leader_leads_to_a_bootstrap_server_and_back(self) -> None:
        observer = observer_of(1)
        nodes = []
        for _ in range(4):
            nodes.append(observer.poll().node)
            observer.now_ms += TIMEOUT_MS
        assert nodes == [LEADER, BOOTSTRAP[0], LEADER, BOOTSTRAP[0]]

    def test_a_late_response_is_ignored(self) -> None:
        observer = observer_of(1)
        late = observer.poll().number
        observer.now_ms += TIMEOUT_MS
        observer.poll()
        answer = FetchedMetadata(leader_id=OTHER.id, leader_epoch=6)
        assert observer.core.fetched(late, answer, observer.now_ms) == []
        assert observer.core.fetched_snapshot(late, FetchedSnapshot(), observer.now_ms) == []
        assert observer.core.fail_request(late, observer.now_ms) == []
        assert observer.core.epoch == 5

    def test_a_lost_connection_backs_off_and_another_server_is_asked(self) -> None:
        observer = observer_of(1)
        commands = observer.core.fail_request(observer.poll().number, observer.now_ms)
        assert commands == [avoided(observer, LEADER, ErrorCode.BROKER_NOT_AVAILABLE)]
        assert observer.poll().node == BOOTSTRAP[0]
        observer.take(observer.core.fail_request(observer.sent[-1].number, observer.now_ms))
        assert observer.poll().node == BOOTSTRAP[1]
        observer.take(observer.core.fail_request(observer.sent[-1].number, observer.now_ms))
        assert observer.poll().node == BOOTSTRAP[2]
        observer.now_ms += BACKOFF_MS - 1
        observer.take(observer.core.fail_request(observer.sent[-1].number, observer.now_ms))
        assert observer.core.poll(observer.now_ms) == []
        assert observer.core.next_poll_ms == observer.now_ms + 1
        observer.now_ms += 1
        assert observer.poll().node == LEADER

    @pytest.mark.parametrize("error", [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNKNOWN_SERVER_ERROR])
    def test_top_level_errors_back_off(self, error: ErrorCode) -> None:
        observer = observer_of(1)
        found = observer.gets(top_level_error=error, leader_epoch=9, leader_id=OTHER.id)
        assert found == [avoided(observer, LEADER, error)]
        assert observer.core.epoch == 5

    @pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.BROKER_NOT_AVAILABLE])
    def test_other_errors_back_off(self, error: ErrorCode) -> None:
        observer = observer_of(1)
        found = observer.gets(error=error, records=to_bytes(entries_of(5)))
        assert found == [avoided(observer, LEADER, error)]
        assert observer.log.end_offset == 1

    @pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
    def test_an_error_without_news_backs_off(self, error: ErrorCode) -> None:
        observer = observer_of(1)
        assert observer.gets(error=error) == [avoided(observer, LEADER, error)]

    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({"top_level_error": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, "CLUSTER_ACTION"),
            ({"error": ErrorCode.INVALID_REQUEST}, "invalid"),
        ],
    )
    def test_refusals_are_fatal(self, fields: dict[str, Any], words: str) -> None:
        observer = observer_of(1)
        (stop,) = observer.gets(**fields)
        assert isinstance(stop, StopBroker)
        assert words in stop.reason
        assert observer.core.next_poll_ms is None


def test_a_model_quorum_and_its_observer_agree() -> None:
    quorum = Quorum()
    quorum.elect(11)
    quorum.append(5)
    quorum.commit()
    quorum.snapshot(4)
    quorum.append(2)
    observer = Observer()
    for _ in range(40):
        observer.now_ms += BACKOFF_MS
        sent = observer.poll()
        node = sent.node.id if sent.node.id > 0 else 11
        if isinstance(sent, SendFetch):
            answer = quorum.fetch(node, sent.request)
            observer.take(observer.core.fetched(sent.number, answer, observer.now_ms))
        else:
            piece = quorum.fetch_snapshot(node, sent.request)
            observer.take(observer.core.fetched_snapshot(sent.number, piece, observer.now_ms))
    assert observer.log == quorum.log
    assert observer.core.high_watermark == quorum.committed == 6
