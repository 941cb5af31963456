"""One partition as this broker leads it: epoch and in-sync replicas over its log, and who waits for it to change.

States, moved by cluster metadata and by disks:

==============  ==================================  ==============================================================
state           because                             what it answers
==============  ==================================  ==============================================================
leading         the metadata names this broker      appends and reads
not leading     it names another one, or none       NOT_LEADER_OR_FOLLOWER
offline         the log's directory has failed      KAFKA_STORAGE_ERROR
deleted         the topic was deleted               UNKNOWN_TOPIC_OR_PARTITION, for good
==============  ==================================  ==============================================================

The high watermark is the smallest log end of the in-sync replicas, and moves only while there are as many of them as
``min.insync.replicas`` asks for: with this broker alone in sync it moves with each append. Whoever waits is asked
again after each change. What a crash leaves is the log's; epoch and replicas come back with the metadata.
Called by: ReplicaManager, data handlers, coordinators. Thread rule: the loop's; ``write`` and ``PartitionLog`` itself
may be called from any thread. Source: Kafka's ``Partition`` (KIP-101, KIP-207, KIP-320, KIP-966).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.model import ClosedError, Isolation, LogOffsetMetadata, LogOffsetSnapshot, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.replicas.waiters import Waiters, wait_until
from tidelog.server.timers import Timers
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.list_offsets import ListedOffset, OffsetSpec
from tidelog.storage.log.partition_log import LogRead, PartitionLog, ReadLimits
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard

NO_EPOCH = -1
"""Of a request that does not say in which epoch it takes this broker for the leader."""
NO_LEADER = -1
ACKS_ALL = -1
UP_TO_HIGH_WATERMARK = -1
"""What ``delete_records`` is asked for, to delete all that may be."""


class Leadership(Protocol):
    """What cluster metadata says of a partition; ``PartitionState`` is one."""

    @property
    def replicas(self) -> Sequence[int]: ...
    @property
    def isr(self) -> Sequence[int]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...


class PartitionRead(NamedTuple):
    """``diverging``: where the fetcher's log parts from this one; nothing was read then."""

    log_read: LogRead
    diverging: EpochEndOffset | None = None


class Partition:
    def __init__(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, *, node_id: int, logs: LogManager, timers: Timers
    ) -> None:
        """Nobody leads it until ``update``."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.is_deleted = False
        self.waiters = Waiters()
        self._node_id = node_id
        self._only_here = (node_id,)
        self._logs = logs
        self._timers = timers
        self._epoch_start_offset = 0
        self._follower_ends: dict[int, LogOffsetMetadata] = {}

    # --- what it is ---

    @property
    def is_leading(self) -> bool:
        return self.leader == self._node_id and not self.is_deleted

    @property
    def is_alone(self) -> bool:
        """It leads, and no other replica is to have its records: what is appended is replicated."""
        return self.isr == self._only_here == self.replicas and self.leader == self._node_id and not self.is_deleted

    @property
    def log(self) -> PartitionLog:
        """The one that serves now: a move between directories puts another in its place.

        ApiError: KAFKA_STORAGE_ERROR where it is offline, UNKNOWN_TOPIC_OR_PARTITION where it is deleted.
        """
        log = self._logs.log(self.topic_partition)
        if log is not None and not self.is_deleted:
            return log
        if self.is_deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} is deleted")
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is in an offline log directory")

    @property
    def is_online(self) -> bool:
        """Its log can be used."""
        return self._logs.log(self.topic_partition) is not None

    @property
    def spare_in_sync(self) -> int:
        """How many replicas more are in sync than have to be, of one that is online."""
        return len(self.isr) - self._min_in_sync(self.log)

    @property
    def log_start_offset(self) -> int:
        """-1 where the log is not here any more."""
        log = self._logs.log(self.topic_partition)
        return -1 if log is None else log.log_start_offset

    def leading_log(self, leader_epoch: int = NO_EPOCH) -> PartitionLog:
        """The log, for a client that takes this broker for the leader in ``leader_epoch``.

        ApiError as ``log``; NOT_LEADER_OR_FOLLOWER; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH where the client's
        epoch is older or newer.
        """
        if leader_epoch not in (NO_EPOCH, self.leader_epoch):
            newer = leader_epoch > self.leader_epoch
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.topic_partition} has the leader epoch {self.leader_epoch}, the request {leader_epoch}",
            )
        log = self.log
        if self.leader != self._node_id:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._node_id}",
            )
        return log

    # --- following the metadata ---

    def update(self, state: Leadership) -> bool:
        """Take over what the metadata says; whether this broker leads in an epoch that is new to it.

        StorageError where the epoch cannot be noted.
        """
        before = (self.leader, self.leader_epoch)
        self.replicas, self.isr = tuple(state.replicas), tuple(state.isr)
        self.leader, self.leader_epoch = state.leader, state.leader_epoch
        self.partition_epoch = state.partition_epoch
        log = self._logs.log(self.topic_partition) if self.is_leading else None
        is_new = log is not None and before != (self.leader, self.leader_epoch)
        if log is not None:
            if is_new:
                self._epoch_start_offset = log.end_offset
                self._follower_ends.clear()
                log.begin_epoch(self.leader_epoch)
            self._advance_high_watermark(log)
        self.changed()
        return is_new

    def deleted(self) -> None:
        """The topic is gone: nothing is answered any more."""
        self.is_deleted = True
        self.changed()

    def changed(self) -> None:
        """Ask those who wait again."""
        self.waiters.partition_changed(self)

    # --- appending ---

    def append(
        self,
        records: bytearray,
        *,
        required_acks: int = ACKS_ALL,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard = NO_GUARD,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Append as the leader; the buffer becomes the log's. The records are readable when they are replicated.

        ApiError as ``leading_log``, NOT_ENOUGH_REPLICAS for acks=all; errors of ``PartitionLog.append_as_leader``.
        """
        is_alone = self.is_alone
        log = self.leading_log() if is_alone else self.require_appendable(required_acks)
        result = self.write(
            log, records, origin, guard, transaction_version=transaction_version, is_replicated=is_alone
        )
        if is_alone:
            self.changed()
        else:
            self.appended()
        return result

    def require_appendable(self, required_acks: int) -> PartitionLog:
        """The first of the three steps of ``append``: the log, if it may be appended to."""
        log = self.leading_log()
        if required_acks == ACKS_ALL and len(self.isr) < self._min_in_sync(log):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR : {len(self.isr)} is insufficient to satisfy the min.isr requirement of"
                f" {self._min_in_sync(log)} for partition {self.topic_partition}",
            )
        return log

    def write(
        self,
        log: PartitionLog,
        records: bytearray,
        origin: AppendOrigin,
        guard: VerificationGuard = NO_GUARD,
        *,
        transaction_version: int = 0,
        is_replicated: bool = False,
    ) -> AppendResult:
        """The second step, in any thread. ``is_replicated``: as ``append_as_leader`` has it, of who is on the loop."""
        while True:
            try:
                return log.append_as_leader(
                    records,
                    leader_epoch=self.leader_epoch,
                    origin=origin,
                    guard=guard,
                    transaction_version=transaction_version,
                    is_replicated=is_replicated,
                )
            except ClosedError:  # the records are as they were
                log = self._log_instead_of(log)

    def appended(self) -> None:
        """The third step."""
        self._advance_high_watermark(self.log)
        self.changed()

    # --- replication ---

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def replication_error(self, end: int) -> ErrorCode | None:
        """What acks=all waits for: None until all in-sync replicas have everything below ``end``, then ``none``.

        An error where that cannot be any more, or where too few replicas are in sync by now.
        """
        try:
            log = self.leading_log()
        except ApiError as error:
            return ErrorCode(error.code)
        if log.high_watermark < end:
            return None
        enough = self._min_in_sync(log) <= len(self.isr)
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    async def replicated(self, end: int, timeout_ms: int) -> None:
        """Return when the in-sync replicas have everything below ``end``; ApiError, REQUEST_TIMED_OUT among them."""
        error = self.replication_error(end)
        if error is None:
            met = await wait_until(lambda _: self.replication_error(end) is not None, (self,), self._timers, timeout_ms)
            error = self.replication_error(end) if met else ErrorCode.REQUEST_TIMED_OUT
        if error:
            raise ApiError(error, f"{self.topic_partition}: what was appended below {end} is not replicated")

    def follower_fetches(self, replica_id: int, start: LogOffsetMetadata) -> None:
        """A follower has everything below ``start``."""
        self._follower_ends[replica_id] = start
        if self._advance_high_watermark(self.log):
            self.changed()

    def require_replica(self, replica_id: int, leader_epoch: int) -> None:
        """ApiError for a follower that the partition does not have (yet)."""
        if replica_id not in self.replicas:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch == NO_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"Replica {replica_id} is not recognized as a valid replica of {self.topic_partition} in leader epoch"
                f" {self.leader_epoch} with partition epoch {self.partition_epoch}",
            )

    # --- reading ---

    def read(
        self, limits: ReadLimits, *, leader_epoch: int = NO_EPOCH, last_fetched_epoch: int = NO_EPOCH
    ) -> PartitionRead:
        """Where the records from an offset on lie. ApiError as ``leading_log``; OffsetOutOfRangeError."""
        log = self.leading_log(leader_epoch)
        if last_fetched_epoch != NO_EPOCH:
            diverging = log.epochs.diverging(last_fetched_epoch, limits.start_offset)
            if diverging is not None:
                place = LogOffsetMetadata(limits.start_offset)
                return PartitionRead(LogRead(start=place, offsets=log.offsets()), diverging)
        return PartitionRead(log.read(limits))

    def offsets(self, leader_epoch: int = NO_EPOCH) -> LogOffsetSnapshot:
        """ApiError as ``leading_log``."""
        return self.leading_log(leader_epoch).offsets()

    def list_offset(self, timestamp: int, isolation: Isolation, leader_epoch: int = NO_EPOCH) -> ListedOffset | None:
        """The answer to ListOffsets; None where there is no such record, or nobody may read it yet.

        ApiError as ``leading_log``, OFFSET_NOT_AVAILABLE where a new leader does not know yet (KIP-207).
        """
        log = self.leading_log(leader_epoch)
        is_lagging = isolation is not Isolation.LOG_END and self._epoch_start_offset > log.high_watermark
        listed = log.list_offset(timestamp, isolation)
        if timestamp in (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL):
            return listed
        if is_lagging and (timestamp == OffsetSpec.LATEST or listed is None):
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"Failed to fetch offsets for partition {self.topic_partition}: its high watermark"
                f" ({log.high_watermark}) is behind the start of the leader epoch ({self._epoch_start_offset})",
            )
        if listed is not None and timestamp == OffsetSpec.LATEST:
            return ListedOffset(offset=listed.offset, leader_epoch=self.leader_epoch)
        return listed

    def epoch_end(self, epoch: int, leader_epoch: int = NO_EPOCH) -> EpochEndOffset | None:
        """Where the largest epoch not above ``epoch`` ends; None where it is not known. ApiError as ``leading_log``."""
        return self.leading_log(leader_epoch).epochs.end_offset_for(epoch)

    # --- deleting ---

    def delete_records(self, offset: int) -> int:
        """Delete the records below ``offset`` (``UP_TO_HIGH_WATERMARK``: all that may be); the offset it comes to.

        ApiError as ``deletable``; OffsetOutOfRangeError above the high watermark.
        """
        log, wanted = self.deletable(offset)
        if self.cut(log, wanted):
            self.changed()
        return wanted

    def deletable(self, offset: int) -> tuple[PartitionLog, int]:
        """The first step of ``delete_records``: the log, and the offset it comes to. The third one is ``changed``.

        ApiError as ``leading_log``, POLICY_VIOLATION where the topic is not one that deletes; OFFSET_OUT_OF_RANGE.
        """
        log = self.leading_log()
        if "delete" not in log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {self.topic_partition} can not be deleted due to the configured policy",
            )
        wanted = log.high_watermark if offset == UP_TO_HIGH_WATERMARK else offset
        if wanted < 0:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"The offset {wanted} for partition {self.topic_partition} is not valid",
            )
        return log, wanted

    def cut(self, log: PartitionLog, wanted: int) -> bool:
        """The second step, in any thread: it may take as long as the disk does. Whether anything is gone."""
        while True:
            try:
                return log.maybe_increment_log_start_offset(wanted)
            except ClosedError:
                log = self._log_instead_of(log)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the logs that serve it here, now or after a move."""
        future = self._logs.log(self.topic_partition, is_future=True)
        starts = [self.leading_log().log_start_offset] + ([] if future is None else [future.log_start_offset])
        return min(starts)

    # --- inside ---

    def _log_instead_of(self, closed: PartitionLog) -> PartitionLog:
        """The partition has moved to another directory, or its own has failed; in any thread.

        ApiError as ``log``; ClosedError where there is no other.
        """
        self._logs.handle_failures()  # returns when a move or failure under way is over
        log = self.log
        if log is closed:
            raise ClosedError("the log is closed", path=closed.directory)
        return log

    def _min_in_sync(self, log: PartitionLog) -> int:
        """No more replicas can be asked for than there are."""
        return min(log.config.min_insync_replicas, len(self.replicas))

    def _advance_high_watermark(self, log: PartitionLog) -> bool:
        """Whether it moved."""
        if len(self.isr) < self._min_in_sync(log):
            return False
        end = log.log_end
        for replica_id in self.isr:
            if replica_id != self._node_id:
                follower_end = self._follower_ends.get(replica_id)
                if follower_end is None:
                    return False
                if follower_end.message_offset < end.message_offset:
                    end = follower_end
        return log.maybe_increment_high_watermark(end) is not None
