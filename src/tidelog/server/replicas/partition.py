"""A partition of this broker: its leader epoch, its log, its purgatory, and the driver of its ``InSyncReplicas``.

The cluster metadata and disk failures change the state:

==============  ====================================  ============================================================
state           cause                                 response to a request
==============  ====================================  ============================================================
leading         the metadata names this broker        appends and reads
not leading     the metadata names another or none    NOT_LEADER_OR_FOLLOWER
offline         the log directory has failed          KAFKA_STORAGE_ERROR
deleted         the topic was deleted                 UNKNOWN_TOPIC_OR_PARTITION, for good
==============  ====================================  ============================================================

``InSyncReplicas`` has the rules of in-sync replicas and the high watermark. If this broker is the only replica, each
append moves the high watermark without them. Delayed operations are checked again after each change. A crash leaves the
log's files. Epoch and replicas come from the metadata again. ``check_lag`` is not called yet: a broker runs alone, so
lagging replicas are those of stopped brokers, and the controller removes them.
Thread rule: the event loop only. ``write``, ``cut`` and ``PartitionLog`` itself allow any thread.
Source: Kafka's ``Partition`` (KIP-101, KIP-207, KIP-320, KIP-966).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from tidelog.model import ClosedError, Isolation, LogOffsetMetadata, LogOffsetSnapshot, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication import (
    AdvanceHighWatermark,
    AlteredPartition,
    Brokers,
    FollowerFetch,
    InSyncReplicas,
    IsrProposal,
    LeaderCommands,
    LedPartition,
)
from tidelog.replication.replica_state import ANY_BROKER_EPOCH
from tidelog.runtime.timers import Timers
from tidelog.server.replicas.purgatory import Purgatory, wait_until
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import LogRead, LogReadRequest, PartitionLog
from tidelog.storage.log.view.list_offsets import ListedOffset, OffsetSpec
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard

NO_EPOCH = -1
"""The leader epoch of a request that does not state one."""
NO_LEADER = -1
ACKS_ALL = -1
UP_TO_HIGH_WATERMARK = -1
"""The offset with which ``delete_records`` deletes all records below the high watermark."""


class PartitionMetadataState(Protocol):
    """The metadata of one partition. ``PartitionState`` implements it."""

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


class Partition:
    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: uuid.UUID,
        *,
        node_id: int,
        logs: LogManager,
        timers: Timers,
        brokers: Brokers,
        propose: Callable[[Partition, IsrProposal], object],
    ) -> None:
        """Create a partition without a leader; ``update`` sets one.

        ``propose`` sends a proposal to the controller and calls ``altered`` later, never within this call.
        """
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.is_only_replica = False
        """True if this broker is the leader and the only replica: each append is replicated at once."""
        self.is_deleted = False
        self.purgatory = Purgatory()
        self.in_sync = InSyncReplicas(node_id, self, brokers)
        """The in-sync replicas. Their leadership begins once the log has recorded the epoch."""
        self._node_id = node_id
        self._only_here = (node_id,)
        self._logs = logs
        self._timers = timers
        self._propose = propose

    # --- state ---

    @property
    def is_leading(self) -> bool:
        return self.leader == self._node_id and not self.is_deleted

    @property
    def log(self) -> PartitionLog:
        """The log in use now. A move between log directories replaces it.

        Raise ApiError(KAFKA_STORAGE_ERROR) if it is offline, and UNKNOWN_TOPIC_OR_PARTITION if it is deleted.
        """
        log = self._logs.log(self.topic_partition)
        if log is not None and not self.is_deleted:
            return log
        if self.is_deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} is deleted")
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is in an offline log directory")

    @property
    def is_online(self) -> bool:
        """True if the log can be used."""
        return self._logs.log(self.topic_partition) is not None

    @property
    def in_sync_surplus(self) -> int:
        """The number of in-sync replicas above the required minimum. The partition must be online."""
        return len(self.in_sync.isr) - self.in_sync.min_isr

    @property
    def log_start_offset(self) -> int:
        """The log start offset, or -1 if the log is offline or deleted."""
        log = self._logs.log(self.topic_partition)
        return -1 if log is None else log.log_start_offset

    def leading_log(self, leader_epoch: int = NO_EPOCH) -> PartitionLog:
        """Return the log if this broker is the leader in the client's ``leader_epoch``.

        Raise ApiError as ``log`` does, and NOT_LEADER_OR_FOLLOWER if this broker is not the leader. Raise
        FENCED_LEADER_EPOCH if the client's epoch is older, and UNKNOWN_LEADER_EPOCH if it is newer.
        """
        if leader_epoch not in (NO_EPOCH, self.leader_epoch):
            newer = leader_epoch > self.leader_epoch
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.topic_partition} has leader epoch {self.leader_epoch}, but the request has {leader_epoch}",
            )
        log = self.log
        if self.leader != self._node_id:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._node_id}",
            )
        return log

    # --- metadata changes ---

    def update(self, state: PartitionMetadataState) -> bool:
        """Apply the metadata's state. Return True if this broker leads in an epoch that is new to it.

        Raise StorageError if the log cannot record the epoch.
        """
        self.replicas, self.leader, self.leader_epoch = tuple(state.replicas), state.leader, state.leader_epoch
        self.is_only_replica = self.is_leading and self.replicas == tuple(state.isr) == self._only_here
        log = self._logs.log(self.topic_partition) if self.is_leading else None
        is_new = False
        if log is None:
            self.in_sync.resign()
        else:
            is_new = not self.in_sync.is_leader or self.in_sync.leader_epoch != self.leader_epoch
            if is_new:
                log.begin_epoch(self.leader_epoch)
            led = LedPartition(
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=self.replicas,
                isr=tuple(state.isr),
            )
            self._run(self.in_sync.lead(led, self._timers.monotonic_ms()))
        self.check_delayed()
        return is_new

    def altered(self, proposal: IsrProposal, response: AlteredPartition) -> None:
        """Process the controller's response to a proposal."""
        if self._run(self.in_sync.altered(proposal, response, self._timers.monotonic_ms())):
            self.check_delayed()

    def mark_deleted(self) -> None:
        """Mark the partition as deleted and complete its delayed operations."""
        self.is_deleted, self.is_only_replica = True, False
        self.check_delayed()

    def check_delayed(self) -> None:
        """Check the delayed operations again."""
        self.purgatory.check()

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
        """Append as the leader. The log owns the buffer from then on. Records are readable once they are replicated.
        Raise ApiError as ``leading_log`` does, NOT_ENOUGH_REPLICAS for acks=all, and the errors of
        ``PartitionLog.append_as_leader``."""
        is_only_replica = self.is_only_replica
        log = self.leading_log() if is_only_replica else self.require_appendable(required_acks)
        result = self.write(
            log, records, origin, guard, transaction_version=transaction_version, is_replicated=is_only_replica
        )
        if is_only_replica:
            self.check_delayed()
        else:
            self.after_append()
        return result

    def require_appendable(self, required_acks: int) -> PartitionLog:
        """Return the log if it accepts appends; the first of the three steps of ``append``."""
        log = self.leading_log()
        if required_acks == ACKS_ALL and (error := self.in_sync.append_error()):
            raise ApiError(
                error,
                f"The size of the current ISR : {len(self.in_sync.isr)} is insufficient to satisfy the min.isr"
                f" requirement of {self.in_sync.min_isr} for partition {self.topic_partition}",
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
        """Append to the log in any thread; the second step of ``append``. ``is_replicated`` also moves the high
        watermark to the log end. Only the event loop's thread may set it."""
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
            except ClosedError:  # the buffer is unchanged, so the append can run again
                log = self._log_instead_of(log)

    def after_append(self) -> None:
        """Advance the high watermark and check the delayed operations; the third step of ``append``."""
        self._run(self.in_sync.appended(self._timers.monotonic_ms()))
        self.check_delayed()

    # --- replication ---

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def log_end(self) -> LogOffsetMetadata:
        return self.log.log_end

    @property
    def min_insync_replicas(self) -> int:
        return self.log.config.min_insync_replicas

    def replication_error(self, end: int) -> ErrorCode | None:
        """Return None while acks=all must wait, and NONE once all in-sync replicas have every record below ``end``.

        Return an error if that has become impossible, or if too few replicas are in sync now.
        """
        try:
            self.leading_log()
        except ApiError as error:
            return ErrorCode(error.code)
        return self.in_sync.replication_error(end)

    async def replicated(self, end: int, timeout_ms: int) -> None:
        """Return once the in-sync replicas have every record below ``end``. Raise ApiError(REQUEST_TIMED_OUT) after the
        timeout, and ApiError with the code of ``replication_error``."""
        error = self.replication_error(end)
        if error is None:
            met = await wait_until(lambda _: self.replication_error(end) is not None, (self,), self._timers, timeout_ms)
            error = self.replication_error(end) if met else ErrorCode.REQUEST_TIMED_OUT
        if error:
            raise ApiError(error, f"{self.topic_partition}: the records below offset {end} are not replicated")

    def require_follower(self, replica_id: int, leader_epoch: int, broker_epoch: int = ANY_BROKER_EPOCH) -> None:
        """Raise ApiError as ``leading_log`` does, and if the fetching broker is not, or not yet, a follower here."""
        self.leading_log(leader_epoch)
        error = self.in_sync.fetch_error(
            replica_id, has_leader_epoch=leader_epoch != NO_EPOCH, broker_epoch=broker_epoch
        )
        if error:
            raise ApiError(
                error,
                f"Replica {replica_id} in broker epoch {broker_epoch} is not a current replica of"
                f" {self.topic_partition} in leader epoch {self.leader_epoch} with partition epoch"
                f" {self.in_sync.partition_epoch}",
            )

    def follower_fetched(
        self, replica_id: int, fetched: LogRead, *, log_start_offset: int, broker_epoch: int = ANY_BROKER_EPOCH
    ) -> None:
        """Record that a follower has every record below the start of ``fetched``, a read that did not diverge."""
        fetch = FollowerFetch(
            replica_id=replica_id,
            offset=fetched.start,
            log_start_offset=log_start_offset,
            leader_end_offset=fetched.offsets.log_end.message_offset,
            now_ms=self._timers.monotonic_ms(),
            broker_epoch=broker_epoch,
        )
        if self._run(self.in_sync.fetched(fetch)):
            self.check_delayed()

    # --- reading ---

    def read(
        self, limits: LogReadRequest, *, leader_epoch: int = NO_EPOCH, last_fetched_epoch: int = NO_EPOCH
    ) -> LogRead:
        """Return the file positions of the records from an offset on. If the fetcher's log diverges, nothing is read.
        Raise ApiError as ``leading_log`` does, and OffsetOutOfRangeError."""
        log = self.leading_log(leader_epoch)
        if last_fetched_epoch != NO_EPOCH:
            diverging = log.epochs.diverging(last_fetched_epoch, limits.start_offset)
            if diverging is not None:
                place = LogOffsetMetadata(limits.start_offset)
                return LogRead(start=place, offsets=log.offsets(), diverging=diverging)
        return log.read(limits)

    def offsets(self, leader_epoch: int = NO_EPOCH) -> LogOffsetSnapshot:
        """Return the log's offsets. Raise ApiError as ``leading_log`` does."""
        return self.leading_log(leader_epoch).offsets()

    def list_offset(self, timestamp: int, isolation: Isolation, leader_epoch: int = NO_EPOCH) -> ListedOffset | None:
        """Return the offset for ListOffsets, or None if no record matches or the client may not read it yet. Raise
        ApiError as ``leading_log`` does. Raise OFFSET_NOT_AVAILABLE if the high watermark of a new leader is still
        below the start of its epoch (KIP-207)."""
        log = self.leading_log(leader_epoch)
        is_lagging = isolation is not Isolation.LOG_END and self.in_sync.epoch_start_offset > log.high_watermark
        listed = log.list_offset(timestamp, isolation)
        if timestamp in (OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL):
            return listed
        if is_lagging and (timestamp == OffsetSpec.LATEST or listed is None):
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE,
                f"Failed to fetch offsets for partition {self.topic_partition}: its high watermark"
                f" ({log.high_watermark}) is behind the start of the leader epoch"
                f" ({self.in_sync.epoch_start_offset})",
            )
        if listed is not None and timestamp == OffsetSpec.LATEST:
            return ListedOffset(offset=listed.offset, leader_epoch=self.leader_epoch)
        return listed

    def epoch_end(self, epoch: int, leader_epoch: int = NO_EPOCH) -> EpochEndOffset | None:
        """Return the end of the largest epoch up to ``epoch``, or None if unknown. Raise ApiError as ``leading_log``
        does."""
        return self.leading_log(leader_epoch).epochs.end_offset_for(epoch)

    # --- deleting ---

    def delete_records(self, offset: int) -> int:
        """Delete the records below ``offset`` and return that offset. ``UP_TO_HIGH_WATERMARK`` stands for the high
        watermark, and it is returned then. Raise ApiError as ``deletable`` does, and OffsetOutOfRangeError if the
        offset is above the high watermark."""
        log, wanted = self.deletable(offset)
        if self.delete_below(log, wanted):
            self.check_delayed()
        return wanted

    def deletable(self, offset: int) -> tuple[PartitionLog, int]:
        """Return the log and the resolved offset; the first step of ``delete_records``. The third one is ``changed``.
        Raise ApiError as ``leading_log`` does, POLICY_VIOLATION if the topic's cleanup policy has no "delete", and
        OFFSET_OUT_OF_RANGE if the offset is negative."""
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

    def delete_below(self, log: PartitionLog, wanted: int) -> bool:
        """Delete the records in any thread; the second step of ``delete_records``. Return True if any were deleted. It
        may wait for the disk."""
        while True:
            try:
                return log.maybe_increment_log_start_offset(wanted)
            except ClosedError:
                log = self._log_instead_of(log)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the current log and of the future log, if a move is under way."""
        future = self._logs.log(self.topic_partition, is_future=True)
        starts = [self.leading_log().log_start_offset] + ([] if future is None else [future.log_start_offset])
        return min(starts)

    # --- internals ---

    def _log_instead_of(self, closed: PartitionLog) -> PartitionLog:
        """Return the log that replaced ``closed`` after a move or a failure; any thread.

        Raise ApiError as ``log`` does, and ClosedError if there is no other log.
        """
        self._logs.handle_failures()  # returns once a running move or failure handling has ended
        log = self.log
        if log is closed:
            raise ClosedError("the log is closed", path=closed.directory)
        return log

    def _run(self, commands: LeaderCommands) -> bool:
        """Execute commands of ``in_sync``. Return True if the high watermark moved."""
        moved = False
        for command in commands:
            if isinstance(command, AdvanceHighWatermark):
                moved = self.log.maybe_increment_high_watermark(command.offset) is not None or moved
            else:
                self._propose(self, command.proposal)
        return moved
