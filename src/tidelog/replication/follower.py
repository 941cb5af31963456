"""A partition that follows its leader: the rules of fetches, truncations and the high watermark, without I/O.

A driver calls a method for each event, and executes the commands that it returns, in sequence::

    follower = Follower(log)                       # a PartitionLog, or anything with its reads
    run(follower.follow(FollowedLeader(leader_id=1, leader_epoch=5)))
    while position := follower.poll(now_ms):       # None: not now, see ``phase`` and ``ready_at_ms``
        response = …                               # a Fetch request, v12 or later, with the fields of ``position``
        run(follower.fetched(position, FetchedPartition(…), now_ms))

    def run(commands):
        try:
            for command in commands: …             # the table in ``follower_commands``
        except TidelogError as error:
            run(follower.write_failed(error, now_ms))
        else:
            if follower.phase is Phase.WRITING:    # there were commands for the log
                run(follower.written(now_ms))

=========  =======================================================  =================================================
phase      meaning                                                  next
=========  =======================================================  =================================================
IDLE       no leader is known, or ``stop`` was called               ``follow``
FETCHING   ``poll`` returns a position                              ``fetched``
WRITING    the driver changes the log                               ``written`` or ``write_failed``
LISTING    the driver asks the leader for its end or its start      ``listed``
DELAYED    after an error, until ``ready_at_ms``                    ``poll``
FAILED     nothing helps but a new leader epoch                     ``follow``
=========  =======================================================  =================================================

===============================================================  ====================================================
event                                                            effect
===============================================================  ====================================================
a new leader epoch; the log has epochs, or ends at its           fetch from the log end
high watermark
a new leader epoch; the log has no epochs                        truncate to the high watermark, then fetch
a response to another offset or epoch; any while not FETCHING    none
a diverging epoch                                                truncate by ``ReplicaEpochs.truncation_for``; the
                                                                 response's offsets and records do not count
records                                                          append; then as without records
no records                                                       high watermark = min(leader's, log end); within one
                                                                 leader epoch it never falls. Log start = leader's
OFFSET_OUT_OF_RANGE                                              list LATEST: truncate to it if it is below the log
                                                                 end. Else list EARLIEST: start over there if it is
                                                                 above the log end. Else fetch again
FENCED_LEADER_EPOCH, OFFSET_MOVED_TO_TIERED_STORAGE              FAILED
an error of ``METADATA_ERRORS``, also of the complete request    DELAYED, at first for 1/32 of the back-off. The wait
                                                                 doubles with each such error, up to the back-off. A
                                                                 response without an error ends the doubling
another error, invalid records                                   DELAYED for the back-off
a batch that begins below the log end and holds it, if the log   start over at the batch, and append it
is empty or ends at or below the leader's log start
another failure of the log                                       FAILED
a truncation that changed nothing                                DELAYED for the back-off
===============================================================  ====================================================

A fetch position is always the log's end, with the epoch of its last batch. ``poll`` can be called any number of times;
the first response to a position counts. A leader that ``follow`` announces during WRITING counts after that write.
A consumer (the mirror) uses the same rules: the leader sends records up to its high watermark only.
Kafka starts over at a batch below the log end only if the log is empty. A follower with older records fails there.
Kafka waits for the back-off after every error. A new topic's leader may lack its metadata for some milliseconds. With
Kafka's rule a follower that asks in this time would miss the topic's first second, and acks=all would wait for it.
Thread rule: one thread, or the driver's lock. Source: Kafka's ``AbstractFetcherThread``, ``ReplicaFetcherThread`` and
``Partition.appendRecordsToFollowerOrFutureReplica`` (KIP-101, KIP-279, KIP-320, KIP-392, KIP-595).
"""

from __future__ import annotations

import enum
import uuid

from tidelog.model import CorruptRecordError, InvalidRecordError, TidelogError, UnexpectedAppendOffsetError
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.follower_commands import (
    Append,
    BackOff,
    Commands,
    Fail,
    ListOffsets,
    LogCommand,
    NamedOffset,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
    TruncationCause,
)
from tidelog.replication.follower_events import (
    NO_EPOCH,
    NO_LEADER,
    FetchedPartition,
    FetchPosition,
    FollowedLeader,
    ListedPartition,
)
from tidelog.replication.replica_log import ReplicaLog
from tidelog.storage.epoch import EpochEndOffset

DEFAULT_BACKOFF_MS = 1000
"""The default of ``replica.fetch.backoff.ms``."""

METADATA_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that can mean that the partition's leader or topic has changed, or that the leader lacks the topic so far."""

_DOUBLINGS = 5
"""The first wait after an error of the metadata is the back-off, halved so often and rounded up to a ms."""

FAILURES = {
    ErrorCode.FENCED_LEADER_EPOCH: "the leader has a newer epoch than {epoch}",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "the records at offset {offset} are in tiered storage, which is not read",
}
"""Errors of the leader that only a new leader epoch can resolve."""


class Phase(enum.Enum):
    """See the module's table."""

    IDLE = "idle"
    FETCHING = "fetching"
    WRITING = "writing"
    LISTING = "listing"
    DELAYED = "delayed"
    FAILED = "failed"


class Follower:
    def __init__(self, log: ReplicaLog, *, backoff_ms: int = DEFAULT_BACKOFF_MS) -> None:
        """Create a follower without a leader. ``log`` may be an object that stands for a log which is replaced."""
        self.log = log
        self.phase = Phase.IDLE
        self.leader: FollowedLeader | None = None
        self.lag: int | None = None
        """The records up to the leader's high watermark that are missing here; None before the first response."""
        self.ready_at_ms = 0
        """The end of the last back-off."""
        self._backoff_ms = backoff_ms
        self._metadata_wait_ms = 0
        """The wait after the next error of the metadata."""
        self._topic_id: uuid.UUID | None = None
        self._restarts = False
        """True if the leader changed during WRITING."""
        self._has_watermark = False
        """True once a response of this leader epoch has set the high watermark."""
        self._appending: FetchedPartition | None = None
        self._truncating: FetchPosition | None = None
        """The position at which the leader's log diverged."""
        self._listing: ListOffsets | None = None
        self._leader_end = 0

    # --- metadata ---

    def follow(self, leader: FollowedLeader) -> Commands:
        """Follow a leader of the metadata. The same leader in the same epoch changes nothing; an older epoch neither.

        Another topic id fails the follower: the log belongs to a topic that was deleted.
        """
        known = self.leader
        if known is not None and leader.leader_epoch < known.leader_epoch:
            return ()
        if None not in (self._topic_id, leader.topic_id) and self._topic_id != leader.topic_id:
            return self._fail_topic_id(leader.topic_id)
        self._topic_id = leader.topic_id or self._topic_id
        self.leader = leader
        if known is not None and (known.leader_id, known.leader_epoch) == (leader.leader_id, leader.leader_epoch):
            return ()
        if self.phase is Phase.WRITING:
            self._restarts = True
            return ()
        return self._start()

    def stop(self) -> None:
        """End following: this replica becomes the leader, or is deleted. A running write still ends with its report."""
        self.leader = self._listing = self.lag = None
        if self.phase is Phase.WRITING:
            self._restarts = True
        else:
            self.phase = Phase.IDLE

    # --- fetching ---

    def poll(self, now_ms: int) -> FetchPosition | None:
        """Return the position for the next Fetch request, or None if the partition cannot be fetched now."""
        if self.phase is Phase.DELAYED and now_ms >= self.ready_at_ms:
            self.phase = Phase.FETCHING
        return self._position() if self.phase is Phase.FETCHING else None

    def fetched(self, asked: FetchPosition, response: FetchedPartition, now_ms: int) -> Commands:
        """Process the partition's part of a Fetch response to ``asked``."""
        if self.phase is not Phase.FETCHING or not asked.is_at(self._position()):
            return ()
        if response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return self._list(NamedOffset.LATEST)
        if response.error_code != ErrorCode.NONE:
            return self._handle_error(response.error_code, now_ms)
        self._reset_metadata_wait()
        if response.diverging_epoch is not None:
            return self._truncate_diverging(response.diverging_epoch)
        if response.records is not None and len(memoryview(response.records)):
            self._appending = response
            return self._write(Append(records=response.records, leader_epoch=asked.leader_epoch))
        return self._take_offsets(response)

    def listed(self, asked: ListOffsets, response: ListedPartition, now_ms: int) -> Commands:
        """Process the partition's part of a ListOffsets response to ``asked``."""
        if self.phase is not Phase.LISTING or asked != self._listing:
            return ()
        self._listing = None
        if response.error_code != ErrorCode.NONE:
            return self._handle_error(response.error_code, now_ms)
        end = self.log.end_offset
        if asked.timestamp is NamedOffset.LATEST:
            self._leader_end = response.offset
            if response.offset < end:
                self.lag = 0
                return self._write(self._truncation(response.offset, TruncationCause.LEADER_END))
            return self._list(NamedOffset.EARLIEST)
        self.lag = max(0, self._leader_end - max(end, response.offset))
        if response.offset > end:
            return self._write(TruncateFully(offset=response.offset))
        self.phase = Phase.FETCHING
        return ()

    def request_failed(
        self, asked: FetchPosition | ListOffsets, now_ms: int, error_code: int = ErrorCode.NETWORK_EXCEPTION
    ) -> Commands:
        """Back off: the request has no response, or an error for all its partitions."""
        if isinstance(asked, ListOffsets):
            return self.listed(asked, ListedPartition(error_code=error_code), now_ms)
        if self.phase is not Phase.FETCHING or not asked.is_at(self._position()):
            return ()
        return self._back_off(error_code, now_ms, is_of_request=True)

    # --- reports of the driver ---

    def written(self, now_ms: int) -> Commands:
        """Go on after all commands for the log succeeded. Raise ValueError if there were none."""
        appended, truncated = self._end_write()
        if self._restarts:
            return self._start()
        self.phase = Phase.FETCHING
        if appended is not None:
            return self._take_offsets(appended)
        if truncated is not None and truncated.is_at(self._position()):
            return self._back_off(ErrorCode.UNKNOWN_SERVER_ERROR, now_ms)
        return ()

    def write_failed(self, error: TidelogError, now_ms: int) -> Commands:
        """Go on after a command for the log failed; later ones were not executed. Raise ValueError if there were none.

        The records are fetched again if they were invalid. They replace the log if it ends inside the first batch, and
        the leader has deleted the records below. Every other error fails the follower.
        """
        appending, _ = self._end_write()
        if self._restarts:
            return self._start()
        if (
            appending is not None
            and isinstance(error, UnexpectedAppendOffsetError)
            and self._is_outdated(error, appending)
        ):
            return self._start_over(error.offset or 0, appending)
        if isinstance(error, CorruptRecordError | InvalidRecordError):
            return self._back_off(error.code, now_ms, str(error))
        return self._fail(error.code, str(error))

    # --- inside ---

    def _start(self) -> Commands:
        """Begin with a leader, or wait for one."""
        self._restarts = self._has_watermark = False
        self._reset_metadata_wait()
        self._appending = self._truncating = self._listing = self.lag = None
        if self.leader is None or self.leader.leader_id == NO_LEADER:
            self.phase = Phase.IDLE
            return ()
        if self.log.epochs.latest is None and self.log.end_offset > self.log.high_watermark:
            return self._write(self._truncation(self.log.high_watermark, TruncationCause.NO_EPOCHS))
        self.phase = Phase.FETCHING
        return ()

    def _position(self) -> FetchPosition:
        latest, leader = self.log.epochs.latest, self.leader
        return FetchPosition(
            offset=self.log.end_offset,
            leader_epoch=NO_EPOCH if leader is None else leader.leader_epoch,
            last_fetched_epoch=NO_EPOCH if latest is None else latest,
            log_start_offset=self.log.log_start_offset,
        )

    def _take_offsets(self, response: FetchedPartition) -> Commands:
        """Set the high watermark and the log start from a response whose records are appended."""
        end, watermark = self.log.end_offset, self.log.high_watermark
        commands: list[LogCommand] = []
        if response.high_watermark >= 0:
            self.lag = max(0, response.high_watermark - end)
            wanted = min(response.high_watermark, end)
            if wanted > watermark or (wanted < watermark and not self._has_watermark):
                commands.append(SetHighWatermark(offset=wanted))
                watermark = wanted
            self._has_watermark = True
        log_start = min(response.log_start_offset, watermark)
        if log_start > self.log.log_start_offset:
            commands.append(RaiseLogStart(offset=log_start))
        return self._write(*commands) if commands else ()

    def _is_outdated(self, error: UnexpectedAppendOffsetError, response: FetchedPartition) -> bool:
        """Return True if the leader's first batch holds this log's end, and the leader has deleted all records below.

        DeleteRecords may move the leader's log start into a batch, and the leader sends complete batches only.
        """
        end = self.log.end_offset
        if error.offset is None or error.last_offset is None or not error.offset < end <= error.last_offset:
            return False
        return self.log.log_start_offset == end or end <= response.log_start_offset

    def _start_over(self, offset: int, response: FetchedPartition) -> Commands:
        """Remove all records, and append those of a response that begin at ``offset``."""
        self._appending = response
        leader_epoch = NO_EPOCH if self.leader is None else self.leader.leader_epoch
        return self._write(
            TruncateFully(offset=offset), Append(records=response.records or b"", leader_epoch=leader_epoch)
        )

    def _truncate_diverging(self, diverging: EpochEndOffset) -> Commands:
        self._truncating = self._position()
        if diverging.end_offset < 0:
            offset = min(self.log.high_watermark, self.log.end_offset)
            return self._write(self._truncation(offset, TruncationCause.NO_EPOCHS))
        offset = self.log.epochs.truncation_for(diverging).offset
        return self._write(self._truncation(offset, TruncationCause.DIVERGING_EPOCH))

    def _truncation(self, offset: int, cause: TruncationCause) -> TruncateTo:
        return TruncateTo(offset=offset, cause=cause, high_watermark=self.log.high_watermark)

    def _write(self, *commands: LogCommand) -> Commands:
        self.phase = Phase.WRITING
        return commands

    def _end_write(self) -> tuple[FetchedPartition | None, FetchPosition | None]:
        """Return the response that was appended and the position that was truncated, if any."""
        if self.phase is not Phase.WRITING:
            raise ValueError(f"no command for the log is in progress: the follower is {self.phase.value}")
        ended = (self._appending, self._truncating)
        self._appending = self._truncating = None
        return ended

    def _list(self, timestamp: NamedOffset) -> Commands:
        self.phase = Phase.LISTING
        self._listing = ListOffsets(timestamp=timestamp, leader_epoch=self._position().leader_epoch)
        return (self._listing,)

    def _handle_error(self, error_code: int, now_ms: int) -> Commands:
        for failure, text in FAILURES.items():
            if error_code == failure:
                position = self._position()
                return self._fail(error_code, text.format(epoch=position.leader_epoch, offset=position.offset))
        return self._back_off(error_code, now_ms)

    def _back_off(self, error_code: int, now_ms: int, message: str = "", *, is_of_request: bool = False) -> Commands:
        wait_ms, needs_metadata = self._backoff_ms, error_code in METADATA_ERRORS
        if needs_metadata:
            wait_ms = self._metadata_wait_ms
            self._metadata_wait_ms = min(2 * wait_ms, self._backoff_ms)
        self.phase = Phase.DELAYED
        self.ready_at_ms = now_ms + wait_ms
        return (
            BackOff(
                error_code=error_code,
                wait_ms=wait_ms,
                needs_metadata=needs_metadata,
                message=message,
                is_of_request=is_of_request,
            ),
        )

    def _reset_metadata_wait(self) -> None:
        self._metadata_wait_ms = -(-self._backoff_ms >> _DOUBLINGS)

    def _fail_topic_id(self, found: uuid.UUID | None) -> Commands:
        self.stop()
        message = f"the log belongs to topic id {self._topic_id}, but the metadata has {found}"
        if self.phase is not Phase.WRITING:
            self.phase = Phase.FAILED
        return (Fail(error_code=ErrorCode.INCONSISTENT_TOPIC_ID, message=message),)

    def _fail(self, error_code: int, message: str) -> Commands:
        self.phase = Phase.FAILED
        return (Fail(error_code=error_code, message=message),)
