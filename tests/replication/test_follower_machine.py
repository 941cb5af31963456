"""Random lives of a follower: leaders change, cleanly or not, and responses are lost, late or doubled.

The logs are lists of epochs and payloads. Two other replicas lead in turns; the follower under test is the third.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from replication.model_log import Driver, ModelLeader, ModelLog
from tidelog.model import CorruptRecordError, StorageError
from tidelog.replication import (
    FetchedPartition,
    FetchPosition,
    FollowedLeader,
    Follower,
    ListedPartition,
    ListOffsets,
    Phase,
    SetHighWatermark,
    TruncateTo,
)

Exchange = tuple[FetchPosition, FetchedPartition] | tuple[ListOffsets, ListedPartition]
BACKOFF_MS = 100


class FollowerLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.logs = {1: ModelLog(), 2: ModelLog()}
        self.leader_id, self.epoch, self.payloads = 1, 0, 0
        self.known: list[tuple[int, int]] = [(1, 0)]
        """Every leader with its epoch."""
        self.driver = Driver(log=ModelLog())
        self.now_ms = 0
        self.responses: list[Exchange] = []
        self.is_clean = True
        """False after an unclean election: committed records may be lost."""
        self.watermarks: dict[int, int] = {}
        """The high watermark in each leader epoch."""
        self.agreed_epoch = -1
        """The last leader epoch in which a response without a divergence was processed."""

    @property
    def follower(self) -> Follower:
        return self.driver.follower

    @property
    def leader(self) -> ModelLeader:
        return ModelLeader(log=self.logs[self.leader_id], epoch=self.epoch, max_records=3)

    # --- the leader ---

    @rule(count=st.integers(1, 4))
    def append(self, count: int) -> None:
        for _ in range(count):
            self.payloads += 1
            self.leader.log.append([(self.epoch, f"r{self.payloads}")])

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        log = self.leader.log
        log.high_watermark += int(share * (log.end_offset - log.high_watermark))

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        log = self.leader.log
        log.raise_log_start(log.log_start_offset + int(share * (log.high_watermark - log.log_start_offset)))

    @rule(is_unclean=st.sampled_from([False, False, False, True]), share=st.floats(0, 1))
    def elect(self, is_unclean: bool, share: float) -> None:
        """Let the other replica lead. Unless it has all committed records, it copies a part of the leader's log."""
        old, new_id = self.leader.log, 3 - self.leader_id
        new = self.logs[new_id]
        if is_unclean:
            self.is_clean = False
        elif not self.has_committed(new, old):
            end = old.high_watermark + int(share * (old.end_offset - old.high_watermark))
            copy = ModelLog(start=old.log_start_offset)
            copy.append(old.entries[: end - old.log_start_offset])
            copy.high_watermark = max(min(new.high_watermark, end), copy.log_start_offset)
            self.logs[new_id] = new = copy
        self.leader_id, self.epoch = new_id, self.epoch + 1
        self.known.append((new_id, self.epoch))
        new.cache.assign(self.epoch, new.end_offset)

    def has_committed(self, log: ModelLog, leader: ModelLog) -> bool:
        start = max(log.log_start_offset, leader.log_start_offset)
        end = leader.high_watermark
        return (
            log.log_start_offset <= leader.high_watermark <= log.end_offset
            and log.entries[start - log.log_start_offset : end - log.log_start_offset]
            == leader.entries[start - leader.log_start_offset : end - leader.log_start_offset]
        )

    # --- the follower ---

    @rule(back=st.integers(0, 2))
    def metadata(self, back: int) -> None:
        """Deliver metadata, which may be old."""
        leader_id, epoch = self.known[max(0, len(self.known) - 1 - back)]
        self.run(self.follower.follow(FollowedLeader(leader_id=leader_id, leader_epoch=epoch)))

    @rule(ms=st.sampled_from([1, BACKOFF_MS]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms

    @rule(is_known_epoch=st.booleans())
    def fetch(self, is_known_epoch: bool) -> None:
        position = self.follower.poll(self.now_ms)
        if position is not None:
            epoch = position.leader_epoch if is_known_epoch else self.epoch
            if epoch == self.epoch or not is_known_epoch:
                self.responses.append((position, self.leader.fetch(position)))

    @precondition(lambda self: self.responses)
    @rule(
        at=st.integers(0, 9),
        is_doubled=st.sampled_from([False, False, True]),
        fails=st.sampled_from([None] * 6 + [0, 1]),
    )
    def deliver(self, at: int, is_doubled: bool, fails: int | None) -> None:
        """Deliver any response; a write that follows may fail."""
        at %= len(self.responses)
        exchange = self.responses[at] if is_doubled else self.responses.pop(at)
        if fails is not None:
            self.driver.fails_with = (CorruptRecordError("a CRC"), StorageError("no space"))[fails]
        self.process(exchange)
        self.driver.fails_with = None

    @rule()
    def restart(self) -> None:
        """Let the follower's broker restart: the log stays, and responses are lost."""
        self.driver = Driver(log=self.driver.log)
        self.responses.clear()
        self.watermarks.clear()
        self.agreed_epoch = -1

    def process(self, exchange: Exchange) -> None:
        asked, response = exchange
        if isinstance(asked, FetchPosition):
            assert isinstance(response, FetchedPartition)
            position = self.follower.poll(self.now_ms)
            counts = position is not None and position.is_at(asked)
            self.run(self.follower.fetched(asked, response, self.now_ms))
            if counts and not response.error_code and response.diverging_epoch is None:
                self.agreed_epoch = asked.leader_epoch
        else:
            assert isinstance(response, ListedPartition)
            self.run(self.follower.listed(asked, response, self.now_ms))

    def run(self, commands: object) -> None:
        for command in self.driver.run(commands, self.now_ms):  # type: ignore[arg-type]
            if isinstance(command, ListOffsets):
                if command.leader_epoch == self.epoch:
                    self.responses.append((command, self.leader.list_offsets(command)))
                else:
                    self.run(self.follower.request_failed(command, self.now_ms))
            elif isinstance(command, TruncateTo):
                assert not (self.is_clean and command.is_below_high_watermark), "a committed record is lost"
            elif isinstance(command, SetHighWatermark):
                assert self.follower.leader is not None
                epoch = self.follower.leader.leader_epoch
                assert command.offset >= self.watermarks.get(epoch, 0), "it fell within an epoch"
                self.watermarks[epoch] = command.offset

    # --- the properties ---

    @invariant()
    def offsets_are_in_order(self) -> None:
        log = self.driver.log
        assert log.log_start_offset <= log.high_watermark <= log.end_offset

    @invariant()
    def the_log_is_a_part_of_its_leaders(self) -> None:
        """The follower has its leader's records, after a response without a divergence."""
        if self.agreed_epoch == self.epoch:
            self.require_same(self.driver.log, self.leader.log, self.driver.log.end_offset)

    @invariant()
    def committed_records_are_the_same(self) -> None:
        if self.is_clean:
            end = min(self.driver.log.high_watermark, self.leader.log.high_watermark)
            self.require_same(self.driver.log, self.leader.log, end)

    def require_same(self, log: ModelLog, leader: ModelLog, end: int) -> None:
        start = max(log.log_start_offset, leader.log_start_offset)
        own = log.entries[start - log.log_start_offset : max(0, end - log.log_start_offset)]
        assert own == leader.entries[start - leader.log_start_offset : max(0, end - leader.log_start_offset)]

    def teardown(self) -> None:
        """Let the network work: the follower becomes a copy of its leader in a few rounds."""
        self.run(self.follower.follow(FollowedLeader(leader_id=self.leader_id, leader_epoch=self.epoch)))
        if self.follower.phase is Phase.FAILED:  # only another leader epoch ends that
            self.elect(False, 1.0)
            self.run(self.follower.follow(FollowedLeader(leader_id=self.leader_id, leader_epoch=self.epoch)))
        leader = self.leader
        for _ in range(20 + len(leader.log.entries) + 2 * len(self.driver.log.entries)):
            self.now_ms += BACKOFF_MS
            responses, self.responses = self.responses, []
            for exchange in responses:
                if isinstance(exchange[0], ListOffsets):
                    self.process(exchange)
            self.fetch(True)
            for exchange in self.responses[:]:
                self.responses.remove(exchange)
                self.process(exchange)
        log = self.driver.log
        assert log.end_offset == leader.log.end_offset
        assert log.log_start_offset == min(leader.log.log_start_offset, log.high_watermark)
        self.require_same(log, leader.log, log.end_offset)
        assert log.high_watermark == leader.log.high_watermark


TestFollowerLife = FollowerLife.TestCase
TestFollowerLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
