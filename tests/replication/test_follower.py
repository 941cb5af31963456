"""The rules of a follower, row by row: each test names the event, and compares the commands."""

from __future__ import annotations

import uuid

import pytest

from replication.model_log import Driver, ModelLeader, ModelLog, encode
from tidelog.model import (
    CorruptRecordError,
    InvalidRecordError,
    StorageError,
    TidelogError,
    UnexpectedAppendOffsetError,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    Append,
    BackOff,
    Fail,
    FetchedPartition,
    FetchPosition,
    FollowedLeader,
    Follower,
    ListedPartition,
    ListOffsets,
    NamedOffset,
    Phase,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
    TruncationCause,
)
from tidelog.storage.epoch import EpochEndOffset

EPOCH = 5
LEADER = FollowedLeader(leader_id=1, leader_epoch=EPOCH)
NEXT_LEADER = FollowedLeader(leader_id=2, leader_epoch=EPOCH + 1)
FIRST_WAIT_MS = 4
"""The first wait after an error of the metadata, of a back-off of 100 ms."""
HOUR_MS = 3_600_000
RESPONSES = [
    FetchedPartition(records=encode([(5, "a")]), high_watermark=1),
    FetchedPartition(diverging_epoch=EpochEndOffset(0, 0)),
    FetchedPartition(error_code=ErrorCode.FENCED_LEADER_EPOCH),
    FetchedPartition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
]
RESPONSE_IDS = ["records", "diverging", "fenced", "out of range"]


def following(log: ModelLog, leader: FollowedLeader = LEADER) -> Driver:
    driver = Driver(log=log)
    driver.run(driver.follower.follow(leader))
    return driver


def position(driver: Driver, now_ms: int = 0) -> FetchPosition:
    found = driver.follower.poll(now_ms)
    assert found is not None
    return found


def delayed(driver: Driver, error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID) -> int:
    """Respond to a fetch with an error, after the last back-off. Return the ms of the next one."""
    now_ms = driver.follower.ready_at_ms
    response = FetchedPartition(error_code=error)
    (command,) = driver.run(driver.follower.fetched(position(driver, now_ms), response, now_ms), now_ms)
    assert isinstance(command, BackOff)
    assert driver.follower.ready_at_ms == now_ms + command.wait_ms
    return command.wait_ms


def phase_of(driver: Driver) -> Phase:
    return driver.follower.phase


class TestMetadata:
    def test_without_a_leader_nothing_is_fetched(self) -> None:
        driver = Driver(log=ModelLog())
        assert (driver.follower.phase, driver.follower.poll(0)) == (Phase.IDLE, None)
        assert driver.follower.follow(FollowedLeader(leader_id=-1, leader_epoch=3)) == ()
        assert (driver.follower.phase, driver.follower.poll(0)) == (Phase.IDLE, None)

    def test_the_position_is_the_log_end_with_the_epoch_of_the_last_batch(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, 3, start=10, high_watermark=11))
        assert driver.done == []
        assert position(driver) == FetchPosition(
            offset=13, leader_epoch=EPOCH, last_fetched_epoch=3, log_start_offset=10
        )

    def test_a_log_without_epochs_is_truncated_to_its_high_watermark(self) -> None:
        driver = following(ModelLog.of_epochs(-1, -1, -1, high_watermark=2))
        assert driver.done == [TruncateTo(offset=2, cause=TruncationCause.NO_EPOCHS, high_watermark=2)]
        assert (position(driver).offset, position(driver).last_fetched_epoch) == (2, -1)

    def test_a_log_without_epochs_that_ends_at_its_high_watermark_is_not_truncated(self) -> None:
        assert following(ModelLog.of_epochs(-1, -1, high_watermark=2)).done == []

    def test_the_same_epoch_changes_nothing(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        driver.run(driver.follower.fetched(position(driver), FetchedPartition(error_code=99), 0))
        assert driver.follower.follow(FollowedLeader(leader_id=1, leader_epoch=EPOCH)) == ()
        assert driver.follower.phase is Phase.DELAYED

    def test_an_older_epoch_changes_nothing(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        assert driver.follower.follow(FollowedLeader(leader_id=2, leader_epoch=EPOCH - 1)) == ()
        assert driver.follower.leader == LEADER

    def test_a_new_epoch_ends_a_back_off_a_failure_and_a_listing(self) -> None:
        for error, phase in (
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, Phase.DELAYED),
            (ErrorCode.FENCED_LEADER_EPOCH, Phase.FAILED),
            (ErrorCode.OFFSET_OUT_OF_RANGE, Phase.LISTING),
        ):
            driver = following(ModelLog.of_epochs(1))
            driver.run(driver.follower.fetched(position(driver), FetchedPartition(error_code=error), 0))
            assert driver.follower.phase is phase
            assert driver.follower.follow(NEXT_LEADER) == ()
            assert position(driver).leader_epoch == EPOCH + 1

    def test_the_same_epoch_with_another_leader_is_followed(self) -> None:
        driver = following(ModelLog.of_epochs(1), FollowedLeader(leader_id=-1, leader_epoch=EPOCH))
        driver.follower.follow(LEADER)
        assert driver.follower.phase is Phase.FETCHING

    def test_a_topic_id_can_become_known_but_not_change(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        first, other = uuid.UUID(int=1), uuid.UUID(int=2)
        named = FollowedLeader(leader_id=1, leader_epoch=EPOCH, topic_id=first)
        assert driver.follower.follow(named) == ()
        assert (driver.follower.leader, driver.follower.phase) == (named, Phase.FETCHING)
        for epoch in (EPOCH, EPOCH + 1):
            commands = driver.follower.follow(FollowedLeader(leader_id=1, leader_epoch=epoch, topic_id=other))
            message = f"the log belongs to topic id {first}, but the metadata has {other}"
            assert commands == (Fail(error_code=ErrorCode.INCONSISTENT_TOPIC_ID, message=message),)
            assert driver.follower.phase is Phase.FAILED

    @pytest.mark.parametrize("response", [None, *RESPONSES], ids=["none", *RESPONSE_IDS])
    def test_a_stopped_follower_ignores_responses_and_can_start_again(self, response: FetchedPartition | None) -> None:
        driver = following(ModelLog.of_epochs(1))
        driver.run(driver.follower.fetched(position(driver), FetchedPartition(high_watermark=3), 0))
        asked, follower = position(driver), driver.follower
        lags = [follower.lag]
        follower.stop()
        lags.append(follower.lag)
        assert (lags, phase_of(driver), follower.poll(0)) == ([2, None], Phase.IDLE, None)
        assert (follower.request_failed(asked, 0) if response is None else follower.fetched(asked, response, 0)) == ()
        driver.follower.follow(LEADER)
        assert driver.follower.phase is Phase.FETCHING

    @pytest.mark.parametrize("topic_id", [None, uuid.UUID(int=2)])
    def test_a_change_during_a_write_counts_after_it(self, topic_id: uuid.UUID | None) -> None:
        leader = FollowedLeader(leader_id=1, leader_epoch=EPOCH, topic_id=uuid.UUID(int=1))
        driver = following(ModelLog.of_epochs(1), leader)
        response = FetchedPartition(records=encode([(5, "a")]), high_watermark=2)
        (append,) = driver.follower.fetched(position(driver), response, 0)
        driver.follower.follow(FollowedLeader(leader_id=2, leader_epoch=6, topic_id=topic_id))
        assert (driver.follower.phase, driver.follower.poll(0)) == (Phase.WRITING, None)
        driver.perform(append)
        assert driver.follower.written(0) == (), "the old leader's high watermark does not count"
        if topic_id is None:
            assert position(driver).leader_epoch == 6
        else:
            assert driver.follower.phase is Phase.IDLE

    def test_a_stop_during_a_write_counts_after_it(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        driver.follower.fetched(position(driver), FetchedPartition(records=encode([(5, "a")])), 0)
        driver.follower.stop()
        assert phase_of(driver) is Phase.WRITING
        assert driver.follower.write_failed(StorageError("the disk is full"), 0) == ()
        assert phase_of(driver) is Phase.IDLE


class TestResponses:
    def test_records_are_appended_then_offsets_are_taken(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1))
        records = encode([(5, "a"), (5, "b")])
        response = FetchedPartition(records=records, high_watermark=3, log_start_offset=1)
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert executed == (
            Append(records=records, leader_epoch=EPOCH),
            SetHighWatermark(offset=3),
            RaiseLogStart(offset=1),
        )
        assert (position(driver).offset, position(driver).last_fetched_epoch) == (4, 5)
        assert driver.follower.lag == 0

    def test_the_high_watermark_is_at_most_the_log_end(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1))
        response = FetchedPartition(records=encode([(5, "a")]), high_watermark=9)
        assert driver.run(driver.follower.fetched(position(driver), response, 0))[1:] == (SetHighWatermark(offset=3),)
        assert driver.follower.lag == 6

    def test_a_response_without_records_moves_the_offsets(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, 1, high_watermark=1))
        response = FetchedPartition(records=b"", high_watermark=2, log_start_offset=1)
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert executed == (SetHighWatermark(offset=2), RaiseLogStart(offset=1))

    def test_a_response_that_changes_nothing_has_no_command(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, high_watermark=2))
        response = FetchedPartition(high_watermark=2, log_start_offset=0)
        assert driver.follower.fetched(position(driver), response, 0) == ()
        assert (driver.follower.phase, driver.follower.lag) == (Phase.FETCHING, 0)

    def test_the_log_start_stays_at_or_below_the_high_watermark(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, 1, high_watermark=1))
        response = FetchedPartition(high_watermark=2, log_start_offset=3)
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert executed == (SetHighWatermark(offset=2), RaiseLogStart(offset=2))

    def test_the_high_watermark_falls_only_with_the_first_response_of_an_epoch(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, 1, high_watermark=3))
        lower, lowest = FetchedPartition(high_watermark=2), FetchedPartition(high_watermark=1)
        assert driver.run(driver.follower.fetched(position(driver), lower, 0)) == (SetHighWatermark(offset=2),)
        assert driver.follower.fetched(position(driver), lowest, 0) == (), "a delayed response"
        driver.run(driver.follower.follow(NEXT_LEADER))
        assert driver.run(driver.follower.fetched(position(driver), lowest, 0)) == (SetHighWatermark(offset=1),)

    def test_unknown_offsets_of_a_response_do_not_count(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, high_watermark=2))
        assert driver.follower.fetched(position(driver), FetchedPartition(), 0) == ()
        assert driver.follower.lag is None

    @pytest.mark.parametrize(
        "asked",
        [
            FetchPosition(offset=0, leader_epoch=EPOCH, last_fetched_epoch=1, log_start_offset=0),
            FetchPosition(offset=1, leader_epoch=EPOCH - 1, last_fetched_epoch=1, log_start_offset=0),
            FetchPosition(offset=1, leader_epoch=EPOCH, last_fetched_epoch=0, log_start_offset=0),
        ],
        ids=["offset", "leader epoch", "last fetched epoch"],
    )
    @pytest.mark.parametrize("response", RESPONSES, ids=RESPONSE_IDS)
    def test_a_response_to_another_position_is_ignored(self, asked: FetchPosition, response: FetchedPartition) -> None:
        driver = following(ModelLog.of_epochs(1))
        assert driver.follower.fetched(asked, response, 0) == ()
        assert driver.follower.request_failed(asked, 0) == ()
        assert driver.follower.phase is Phase.FETCHING

    def test_a_response_counts_after_the_log_start_moved(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, high_watermark=2))
        asked = position(driver)
        driver.log.raise_log_start(1)
        assert driver.run(driver.follower.fetched(asked, FetchedPartition(records=encode([(5, "a")])), 0))

    def test_a_second_response_to_a_position_is_ignored(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        asked, response = position(driver), FetchedPartition(records=encode([(5, "a")]))
        driver.run(driver.follower.fetched(asked, response, 0))
        assert driver.follower.fetched(asked, response, 0) == ()
        assert driver.log.end_offset == 2

    def test_batches_above_the_leader_epoch_of_the_request_stay_out(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        response = FetchedPartition(records=encode([(5, "a"), (6, "b")]), high_watermark=3)
        driver.run(driver.follower.fetched(position(driver), response, 0))
        assert driver.log.entries == [(1, "0@1"), (5, "a")]
        assert driver.log.high_watermark == 2


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "wait_ms"),
        [
            (ErrorCode.UNKNOWN_LEADER_EPOCH, FIRST_WAIT_MS),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, FIRST_WAIT_MS),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, FIRST_WAIT_MS),
            (ErrorCode.UNKNOWN_TOPIC_ID, FIRST_WAIT_MS),
            (ErrorCode.INCONSISTENT_TOPIC_ID, FIRST_WAIT_MS),
            (ErrorCode.KAFKA_STORAGE_ERROR, FIRST_WAIT_MS),
            (ErrorCode.CORRUPT_MESSAGE, 100),
            (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 100),
            (ErrorCode.UNKNOWN_SERVER_ERROR, 100),
            (9999, 100),
        ],
    )
    def test_an_error_delays_the_partition(self, error: int, wait_ms: int) -> None:
        driver = following(ModelLog.of_epochs(1))
        asked = position(driver)
        executed = driver.run(driver.follower.fetched(asked, FetchedPartition(error_code=error), 1000))
        needs_metadata, end_ms = wait_ms == FIRST_WAIT_MS, 1000 + wait_ms
        assert executed == (BackOff(error_code=error, wait_ms=wait_ms, needs_metadata=needs_metadata),)
        assert (driver.follower.phase, driver.follower.ready_at_ms) == (Phase.DELAYED, end_ms)
        assert driver.follower.poll(end_ms - 1) is None
        assert driver.follower.fetched(asked, FetchedPartition(records=encode([(5, "a")])), end_ms - 1) == ()
        assert driver.follower.poll(end_ms) == asked

    def test_the_wait_doubles_with_each_error_of_the_metadata(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        assert [delayed(driver) for _ in range(8)] == [4, 8, 16, 32, 64, 100, 100, 100]

    def test_other_errors_do_not_change_the_wait_after_an_error_of_the_metadata(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        errors = [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert [delayed(driver, error) for error in errors] == [4, 100, 8]

    @pytest.mark.parametrize(
        "response",
        [
            FetchedPartition(),
            FetchedPartition(records=encode([(5, "a")])),
            FetchedPartition(diverging_epoch=EpochEndOffset(1, 0)),
        ],
        ids=["no records", "records", "diverging"],
    )
    def test_a_response_without_an_error_ends_the_doubling(self, response: FetchedPartition) -> None:
        driver = following(ModelLog.of_epochs(1))
        assert [delayed(driver) for _ in range(3)] == [4, 8, 16]
        driver.run(driver.follower.fetched(position(driver, HOUR_MS), response, HOUR_MS))
        assert delayed(driver) == 4

    def test_a_new_leader_epoch_ends_the_doubling(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        assert [delayed(driver) for _ in range(3)] == [4, 8, 16]
        driver.run(driver.follower.follow(NEXT_LEADER))
        assert delayed(driver) == 4

    @pytest.mark.parametrize(("backoff_ms", "waits"), [(0, [0, 0]), (1, [1, 1]), (33, [2, 4]), (1000, [32, 64])])
    def test_the_first_wait_is_a_fraction_of_the_back_off(self, backoff_ms: int, waits: list[int]) -> None:
        driver = Driver(log=ModelLog.of_epochs(1))
        driver.follower = Follower(driver.log, backoff_ms=backoff_ms)
        driver.run(driver.follower.follow(LEADER))
        assert [delayed(driver) for _ in waits] == waits

    def test_a_failed_request_delays_the_partition(self) -> None:
        driver = following(ModelLog.of_epochs(1))
        assert driver.run(driver.follower.request_failed(position(driver), 7)) == (
            BackOff(
                error_code=ErrorCode.NETWORK_EXCEPTION, wait_ms=FIRST_WAIT_MS, needs_metadata=True, is_of_request=True
            ),
        )

    @pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE])
    def test_a_failure_lasts_until_the_epoch_changes(self, error: ErrorCode) -> None:
        driver = following(ModelLog.of_epochs(1))
        (command,) = driver.run(driver.follower.fetched(position(driver), FetchedPartition(error_code=error), 0))
        assert isinstance(command, Fail)
        assert command.error_code == error
        driver.follower.follow(LEADER)
        assert (driver.follower.phase, driver.follower.poll(10**9)) == (Phase.FAILED, None)
        driver.follower.follow(NEXT_LEADER)
        assert driver.follower.phase is Phase.FETCHING

    @pytest.mark.parametrize("error", [CorruptRecordError("a CRC"), InvalidRecordError("no")])
    def test_invalid_records_are_fetched_again_after_a_back_off(self, error: TidelogError) -> None:
        driver = following(ModelLog.of_epochs(1))
        asked, response = position(driver), FetchedPartition(records=encode([(5, "a")]), high_watermark=2)
        driver.fails_with = error
        executed = driver.run(driver.follower.fetched(asked, response, 0))
        assert executed[1:] == (BackOff(error_code=error.code, wait_ms=100, needs_metadata=False, message=str(error)),)
        assert driver.follower.poll(100) == asked
        driver.run(driver.follower.fetched(asked, response, 100))
        assert driver.log.end_offset == 2

    @pytest.mark.parametrize("error", [StorageError("no space"), UnexpectedAppendOffsetError("below", offset=0)])
    def test_another_failure_of_an_append_fails_the_partition(self, error: TidelogError) -> None:
        driver = following(ModelLog.of_epochs(1))
        driver.fails_with = error
        response = FetchedPartition(records=encode([(5, "a")]))
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert executed[1:] == (Fail(error_code=error.code, message=str(error)),)
        assert driver.follower.phase is Phase.FAILED

    @pytest.mark.parametrize("response", ["truncation", "high watermark"])
    def test_a_failure_of_another_write_fails_the_partition(self, response: str) -> None:
        driver = following(ModelLog.of_epochs(1, 2))
        driver.fails_with = StorageError("input/output error")
        diverging = EpochEndOffset(1, 1) if response == "truncation" else None
        part = FetchedPartition(diverging_epoch=diverging, high_watermark=1)
        driver.run(driver.follower.fetched(position(driver), part, 0))
        assert driver.follower.phase is Phase.FAILED

    @pytest.mark.parametrize(
        ("own_epochs", "first", "last", "leader_start"),
        [((), 8, 10, 10), ((), 8, 10, -1), ((1, 1, 1), 12, 13, 13), ((1, 1, 1), 8, 14, 14)],
        ids=["an empty log", "a response without a log start", "below the leader's start", "a batch below all records"],
    )
    def test_a_batch_around_the_log_end_replaces_deleted_records(
        self, own_epochs: tuple[int, ...], first: int, last: int, leader_start: int
    ) -> None:
        driver = following(ModelLog.of_epochs(*own_epochs, start=10))
        driver.fails_with = UnexpectedAppendOffsetError("the batch begins below", offset=first, last_offset=last)
        records = encode([(5, str(offset)) for offset in range(first, last + 1)])
        response = FetchedPartition(records=records, high_watermark=last + 1, log_start_offset=leader_start)
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        append = Append(records=records, leader_epoch=EPOCH)
        assert executed[:4] == (append, TruncateFully(offset=first), append, SetHighWatermark(offset=last + 1))
        assert executed[4:] == ((RaiseLogStart(offset=leader_start),) if leader_start >= 0 else ())
        assert (driver.follower.phase, position(driver).offset) == (Phase.FETCHING, last + 1)

    @pytest.mark.parametrize(
        ("own_epochs", "first", "last", "leader_start"),
        [((1, 1, 1), 12, 13, 12), ((1, 1, 1), 12, 13, -1), ((1, 1, 1), 11, 12, 13), ((), 8, 9, 10), ((), 10, 12, 10)],
        ids=["a record is not deleted", "no log start", "the batch ends below", "below an empty log", "not below"],
    )
    def test_another_batch_below_the_log_end_fails_the_partition(
        self, own_epochs: tuple[int, ...], first: int, last: int, leader_start: int
    ) -> None:
        driver = following(ModelLog.of_epochs(*own_epochs, start=10))
        entries = list(driver.log.entries)
        driver.fails_with = UnexpectedAppendOffsetError("the batch begins below", offset=first, last_offset=last)
        response = FetchedPartition(records=encode([(5, "a")]), log_start_offset=leader_start)
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert [type(command) for command in executed] == [Append, Fail]
        assert (driver.follower.phase, driver.log.entries) == (Phase.FAILED, entries)

    def test_a_report_without_a_write_is_refused(self) -> None:
        driver = following(ModelLog())
        for report in (driver.follower.written, lambda now_ms: driver.follower.write_failed(StorageError(""), now_ms)):
            with pytest.raises(ValueError, match="is fetching"):
                report(0)


class TestDivergence:
    @pytest.mark.parametrize(
        ("own", "leader", "offset"),
        [
            ((1, 1, 2, 2), EpochEndOffset(1, 1), 1),
            ((1, 1, 2, 2), EpochEndOffset(1, 9), 2),
            ((1, 1, 2, 2), EpochEndOffset(2, 3), 3),
            ((1, 3, 3), EpochEndOffset(2, 3), 1),
            ((3, 3), EpochEndOffset(1, 1), 0),
            ((3, 3), EpochEndOffset(0, 0), 0),
        ],
        ids=["leader's end", "own end", "same epoch", "epoch unknown here", "older than all", "nothing in common"],
    )
    def test_the_log_is_truncated_by_epochs(self, own: tuple[int, ...], leader: EpochEndOffset, offset: int) -> None:
        driver = following(ModelLog.of_epochs(*own))
        executed = driver.run(driver.follower.fetched(position(driver), FetchedPartition(diverging_epoch=leader), 0))
        assert executed == (TruncateTo(offset=offset, cause=TruncationCause.DIVERGING_EPOCH, high_watermark=0),)
        assert position(driver).offset == offset

    def test_a_diverging_response_has_no_other_effect(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, 2, 2, high_watermark=1))
        response = FetchedPartition(
            diverging_epoch=EpochEndOffset(1, 2), records=encode([(5, "a")]), high_watermark=2, log_start_offset=1
        )
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert [type(command) for command in executed] == [TruncateTo]
        assert (driver.log.high_watermark, driver.log.log_start_offset) == (1, 0)

    def test_a_truncation_below_the_high_watermark_says_so(self) -> None:
        for offset, is_below in ((1, True), (2, False), (3, False)):
            driver = following(ModelLog.of_epochs(1, 1, 1, 2, high_watermark=2))
            response = FetchedPartition(diverging_epoch=EpochEndOffset(1, offset))
            (truncation,) = driver.run(driver.follower.fetched(position(driver), response, 0))
            assert isinstance(truncation, TruncateTo)
            assert (truncation.offset, truncation.is_below_high_watermark) == (offset, is_below)

    def test_an_epoch_without_records_goes_with_a_truncation_to_the_end(self) -> None:
        log = ModelLog.of_epochs(1, 1)
        log.cache.assign(3, 2)
        driver = following(log)
        assert position(driver).last_fetched_epoch == 3
        driver.run(driver.follower.fetched(position(driver), FetchedPartition(diverging_epoch=EpochEndOffset(1, 4)), 0))
        assert (position(driver).offset, position(driver).last_fetched_epoch) == (2, 1)

    def test_a_leader_without_an_end_offset_leaves_the_high_watermark(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1, 2, high_watermark=1))
        response = FetchedPartition(diverging_epoch=EpochEndOffset(1, -1))
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert executed == (TruncateTo(offset=1, cause=TruncationCause.NO_EPOCHS, high_watermark=1),)

    def test_a_truncation_that_changes_nothing_delays_the_partition(self) -> None:
        driver = following(ModelLog.of_epochs(1, 1))
        response = FetchedPartition(diverging_epoch=EpochEndOffset(1, 7))
        executed = driver.run(driver.follower.fetched(position(driver), response, 0))
        assert [type(command) for command in executed] == [TruncateTo, BackOff]

    @pytest.mark.parametrize("is_consumer", [False, True])
    def test_two_diverged_logs_become_the_same(self, is_consumer: bool) -> None:
        leader = ModelLeader(
            log=ModelLog.of_epochs(0, 0, 2, 2, 4, 4, 5, high_watermark=7), epoch=5, is_consumer=is_consumer
        )
        driver = following(ModelLog.of_epochs(0, 0, 1, 3, 3, 3, 3, 3))
        for _ in range(6):
            driver.round(leader)
        assert driver.log.entries == leader.log.entries
        assert driver.log.cache.entries == leader.log.cache.entries
        assert driver.log.high_watermark == 7


class TestOutOfRange:
    LATEST = ListOffsets(timestamp=NamedOffset.LATEST, leader_epoch=EPOCH)
    EARLIEST = ListOffsets(timestamp=NamedOffset.EARLIEST, leader_epoch=EPOCH)

    def out_of_range(self, log: ModelLog) -> Driver:
        driver = following(log)
        response = FetchedPartition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        assert driver.run(driver.follower.fetched(position(driver), response, 0)) == (self.LATEST,)
        assert (driver.follower.phase, driver.follower.poll(0)) == (Phase.LISTING, None)
        return driver

    def test_the_leader_ends_before_this_log(self) -> None:
        driver = self.out_of_range(ModelLog.of_epochs(1, 1, 1, high_watermark=3))
        executed = driver.run(driver.follower.listed(self.LATEST, ListedPartition(offset=2), 0))
        assert executed == (TruncateTo(offset=2, cause=TruncationCause.LEADER_END, high_watermark=3),)
        assert executed[0].is_below_high_watermark
        assert (position(driver).offset, driver.follower.lag) == (2, 0)

    @pytest.mark.parametrize(("latest", "start"), [(9, 5), (5, 5)], ids=["records", "an empty leader"])
    def test_the_leader_starts_after_this_log(self, latest: int, start: int) -> None:
        driver = self.out_of_range(ModelLog.of_epochs(1, 1, 1))
        assert driver.run(driver.follower.listed(self.LATEST, ListedPartition(offset=latest), 0)) == (self.EARLIEST,)
        executed = driver.run(driver.follower.listed(self.EARLIEST, ListedPartition(offset=start), 0))
        assert executed == (TruncateFully(offset=start),)
        assert (position(driver).offset, position(driver).last_fetched_epoch) == (start, -1)
        assert driver.follower.lag == latest - start

    @pytest.mark.parametrize("start", [0, 3], ids=["below the end", "at the end"])
    def test_the_leader_has_this_log_s_end_meanwhile(self, start: int) -> None:
        driver = self.out_of_range(ModelLog.of_epochs(1, 1, 1))
        driver.run(driver.follower.listed(self.LATEST, ListedPartition(offset=3), 0))
        assert driver.run(driver.follower.listed(self.EARLIEST, ListedPartition(offset=start), 0)) == ()
        assert (position(driver).offset, driver.follower.lag) == (3, 0)

    @pytest.mark.parametrize("at", [LATEST, EARLIEST], ids=["latest", "earliest"])
    @pytest.mark.parametrize(
        ("error", "phase"),
        [
            (ErrorCode.FENCED_LEADER_EPOCH, Phase.FAILED),
            (ErrorCode.UNKNOWN_LEADER_EPOCH, Phase.DELAYED),
            (ErrorCode.OFFSET_NOT_AVAILABLE, Phase.DELAYED),
            (ErrorCode.NETWORK_EXCEPTION, Phase.DELAYED),
        ],
    )
    def test_an_error_of_the_listing(self, at: ListOffsets, error: ErrorCode, phase: Phase) -> None:
        driver = self.out_of_range(ModelLog.of_epochs(1))
        if at is self.EARLIEST:
            driver.run(driver.follower.listed(self.LATEST, ListedPartition(offset=5), 0))
        driver.run(driver.follower.request_failed(at, 0, error))
        assert driver.follower.phase is phase
        assert (driver.follower.poll(100) is None) == (phase is Phase.FAILED)
        assert driver.follower.listed(at, ListedPartition(offset=0), 100) == (), "a late response"

    @pytest.mark.parametrize(
        "asked", [EARLIEST, ListOffsets(timestamp=NamedOffset.LATEST, leader_epoch=4)], ids=["offset", "epoch"]
    )
    def test_a_response_to_another_listing_is_ignored(self, asked: ListOffsets) -> None:
        driver = self.out_of_range(ModelLog.of_epochs(1, 1))
        assert driver.follower.listed(asked, ListedPartition(offset=0), 0) == ()
        assert driver.follower.phase is Phase.LISTING
