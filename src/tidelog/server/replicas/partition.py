"""A partition of this broker: its leader epoch, its log, its purgatory, and its two sides: leader and follower.

The cluster metadata and disk failures change the state:

==============  ====================================  ============================================================
state           cause                                 response to a request
==============  ====================================  ============================================================
leading         the metadata names this broker        appends and reads
following       the metadata names another broker     reads of consumers up to the high watermark (KIP-392);
                                                      NOT_LEADER_OR_FOLLOWER for everything else
not leading     the metadata names no leader          the same
handing over    another leader epoch is committed     NOT_LEADER_OR_FOLLOWER for appends
offline         the log directory has failed          KAFKA_STORAGE_ERROR
deleted         the topic was deleted                 UNKNOWN_TOPIC_OR_PARTITION, for good
==============  ====================================  ============================================================

``Leading`` drives the rules of in-sync replicas and the high watermark. If this broker is the only replica, each append
moves the high watermark without them. ``follower`` has the rules of a follower; the fetchers drive it. Before the
metadata changes the leader, ``hand_over`` ends appends in background threads, and the fetchers end theirs. So a log
never gets records of two leaders at once. Delayed operations are checked again after each change. A crash leaves the
log's files. Epoch and replicas come from the metadata again.
Thread rule: the event loop only. ``write`` and ``PartitionLog`` itself allow any thread.
Source: Kafka's ``Partition`` (KIP-101, KIP-207, KIP-320, KIP-392, KIP-966).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.kernel import PlainAppends, PlainReads
from tidelog.model import Isolation, LogOffsetMetadata, LogOffsetSnapshot, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication import AlteredPartition, Brokers, Follower, InSyncReplicas, IsrProposal, LedPartition
from tidelog.replication.follower import DEFAULT_BACKOFF_MS
from tidelog.replication.in_sync_replicas import DEFAULT_LAG_TIME_MAX_MS
from tidelog.replication.replica_state import ANY_BROKER_EPOCH
from tidelog.runtime.executor import InThread
from tidelog.runtime.timers import Timers
from tidelog.server.replicas.leading import NO_EPOCH, Leading, LeadingSetup
from tidelog.server.replicas.log_in_use import LogInUse, Result
from tidelog.server.replicas.purgatory import Purgatory, wait_until
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import LogRead, LogReadRequest, PartitionLog
from tidelog.storage.log.view.list_offsets import ListedOffset, OffsetSpec
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard

NO_LEADER = -1
ACKS_ALL = -1


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
    @property
    def adding(self) -> Sequence[int]: ...
    @property
    def removing(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSetup:
    """The parts of the broker that its partitions share."""

    node_id: int
    logs: LogManager
    timers: Timers
    brokers: Brokers
    propose: Callable[[Partition, IsrProposal], object]
    """Sends a proposal to the controller and calls ``altered`` later, never within this call."""
    lag_time_max_ms: int = DEFAULT_LAG_TIME_MAX_MS
    backoff_ms: int = DEFAULT_BACKOFF_MS
    """The back-off of fetches after an error."""
    note_isr: Callable[[int], object] = lambda _change: None
    """The callback of ``LeadingSetup``."""
    transaction_max_timeout_ms: int = 900_000


class Partition:
    def __init__(self, topic_partition: TopicPartition, topic_id: uuid.UUID, setup: PartitionSetup) -> None:
        """Create a partition without a leader; ``update`` sets one."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.leader = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.adding: tuple[int, ...] = ()
        """The new replicas of a reassignment under way."""
        self.is_reassigning = False
        self.is_only_replica = False
        """True if this broker is the leader and the only replica: each append is replicated at once."""
        self.is_deleted = False
        self.purgatory = Purgatory()
        self._setup = setup
        self._node_id = setup.node_id
        self._only_here = (setup.node_id,)
        self._log = LogInUse(setup.logs, topic_partition)
        self.leading = Leading(
            self._log,
            LeadingSetup(
                node_id=setup.node_id,
                brokers=setup.brokers,
                timers=setup.timers,
                propose=lambda proposal: setup.propose(self, proposal),
                lag_time_max_ms=setup.lag_time_max_ms,
                note_isr=setup.note_isr,
            ),
        )
        self.follower = Follower(self._log, backoff_ms=setup.backoff_ms)
        """The rules of this replica as a follower. The fetchers drive it."""
        self._writes = 0
        """The appends in background threads."""
        self._handing_over: asyncio.Future[None] | None = None
        """Set from ``hand_over`` until the next ``update``. Its result comes once the last write has ended."""

    # --- state ---

    @property
    def is_leading(self) -> bool:
        return self.leader == self._node_id and not self.is_deleted

    @property
    def is_following(self) -> bool:
        """True if another broker leads."""
        return self.leader not in (self._node_id, NO_LEADER) and not self.is_deleted

    @property
    def in_sync(self) -> InSyncReplicas:
        return self.leading.in_sync

    @property
    def log(self) -> PartitionLog:
        """The log in use now. A move between log directories replaces it.

        Raise ApiError(KAFKA_STORAGE_ERROR) if it is offline, and UNKNOWN_TOPIC_OR_PARTITION if it is deleted.
        """
        if self.is_deleted:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.topic_partition} is deleted")
        return self._log.require()

    @property
    def is_online(self) -> bool:
        """True if the log can be used."""
        return self._log.get() is not None

    @property
    def in_sync_surplus(self) -> int:
        """The number of in-sync replicas above the required minimum. The partition must be online."""
        return len(self.in_sync.isr) - self.in_sync.min_isr

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without the new ones of a reassignment under way."""
        return len(self.replicas) - len(self.adding)

    @property
    def is_under_replicated(self) -> bool:
        """True if this broker is the leader and replicas are out of sync."""
        return self.is_leading and len(self.in_sync.isr) < self.replication_factor

    @property
    def log_start_offset(self) -> int:
        """The log start offset, or -1 if the log is offline or deleted."""
        log = self._log.get()
        return -1 if log is None else log.log_start_offset

    @property
    def producer_count(self) -> int:
        """The number of producers in the log's state, 0 if the log is offline."""
        log = self._log.get()
        return 0 if log is None else len(log.producers)

    @property
    def has_late_transaction(self) -> bool:
        """True if a transaction should have ended long ago: see ``PartitionLog.has_late_transaction``."""
        log = self._log.get()
        setup = self._setup
        return log is not None and log.has_late_transaction(setup.timers.now_ms(), setup.transaction_max_timeout_ms)

    def local_log(self, leader_epoch: int = NO_EPOCH) -> PartitionLog:
        """Return the log of the leader or of a follower, if the client's ``leader_epoch`` is right.

        Raise ApiError as ``log`` does. Raise FENCED_LEADER_EPOCH if the client's epoch is older, and
        UNKNOWN_LEADER_EPOCH if it is newer.
        """
        if leader_epoch not in (NO_EPOCH, self.leader_epoch):
            newer = leader_epoch > self.leader_epoch
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if newer else ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.topic_partition} has leader epoch {self.leader_epoch}, but the request has {leader_epoch}",
            )
        return self.log

    def leading_log(self, leader_epoch: int = NO_EPOCH) -> PartitionLog:
        """Return the log if this broker is the leader in the client's ``leader_epoch``.

        Raise ApiError as ``local_log`` does, and NOT_LEADER_OR_FOLLOWER if this broker is not the leader.
        """
        log = self.local_log(leader_epoch)
        if self.leader != self._node_id:
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Leader not local for partition {self.topic_partition} on broker {self._node_id}",
            )
        return log

    @property
    def future_log(self) -> PartitionLog | None:
        """The future log of a move under way."""
        return self._log.future

    def change(self, change: Callable[[PartitionLog], Result], log: PartitionLog) -> Result:
        """See ``LogInUse.change``; any thread."""
        return self._log.change(change, log)

    def log_for(self, leader_epoch: int, *, leader_only: bool) -> PartitionLog:
        """Return ``leading_log`` if ``leader_only``, and else ``local_log``."""
        return self.leading_log(leader_epoch) if leader_only else self.local_log(leader_epoch)

    # --- metadata changes ---

    def update(self, state: PartitionMetadataState) -> bool:
        """Apply the metadata's state. Return True if this broker leads in an epoch that is new to it.

        A new leadership ends following, and the fetchers must have ended their writes. If another broker leads, the
        fetchers call ``follower.follow``. Raise StorageError if the log cannot record the epoch.
        """
        self.replicas, self.leader, self.leader_epoch = tuple(state.replicas), state.leader, state.leader_epoch
        self.adding, self.is_reassigning = tuple(state.adding), bool(state.adding or state.removing)
        self.is_only_replica = self.is_leading and self.replicas == tuple(state.isr) == self._only_here
        self._handing_over = None
        is_new = False
        if not self.is_following:
            self.follower.stop()
        if self.is_leading and self.is_online:
            led = LedPartition(
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=self.replicas,
                isr=tuple(state.isr),
            )
            is_new = self.leading.lead(led)
        else:
            self.leading.resign()
        self.check_delayed()
        return is_new

    def refuse_appends(self) -> bool:
        """Refuse appends from now on. The next ``update`` ends this state. Return True if some have not ended."""
        if self._handing_over is None:
            self._handing_over = asyncio.get_running_loop().create_future()
        return bool(self._writes)

    async def hand_over(self) -> None:
        """Refuse appends from now on, and return once those in background threads have ended."""
        if self.refuse_appends():
            assert self._handing_over is not None
            await asyncio.shield(self._handing_over)

    def altered(self, proposal: IsrProposal, response: AlteredPartition) -> None:
        """Process the controller's response to a proposal."""
        if self.leading.altered(proposal, response):
            self.check_delayed()

    def check_lag(self) -> None:
        """Let lagging followers leave the in-sync replicas, if this broker is the leader."""
        if self.is_leading and self.is_online and self.leading.check_lag():
            self.check_delayed()

    def mark_deleted(self) -> None:
        """Mark the partition as deleted and complete its delayed operations."""
        self.is_deleted, self.is_only_replica = True, False
        self.follower.stop()
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
        if is_only_replica and self._handing_over is None:
            log = self.leading_log()
        else:
            log = self.require_appendable(required_acks)
        result = self.write(
            log, records, origin, guard, transaction_version=transaction_version, is_replicated=is_only_replica
        )
        if is_only_replica:
            self.check_delayed()
        else:
            self.after_append()
        return result

    @property
    def plain_appends(self) -> PlainAppends[AppendResult] | None:
        """The way in of plain batches that are replicated at once, or None if ``append`` may do more than that."""
        if not self.is_only_replica or self._handing_over is not None:
            return None
        log = self._log.get()
        return None if log is None else log.plain_appends

    def require_appendable(self, required_acks: int) -> PartitionLog:
        """Return the log if it accepts appends; the first of the three steps of ``append``."""
        log = self.leading_log()
        if self._handing_over is not None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is getting another leader")
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
        return self._log.change(  # a closed log leaves the buffer unchanged, so the append can run again
            lambda log: log.append_as_leader(
                records,
                leader_epoch=self.leader_epoch,
                origin=origin,
                guard=guard,
                transaction_version=transaction_version,
                is_replicated=is_replicated,
            ),
            log,
        )

    async def append_in_thread(
        self, in_thread: InThread, records: bytearray, *, required_acks: int, guard: VerificationGuard = NO_GUARD
    ) -> AppendResult:
        """Append as ``append`` does, in a background thread. A change of the leader waits for its end."""
        log = self.require_appendable(required_acks)
        self._writes += 1
        try:
            result = await in_thread(self.write, log, records, AppendOrigin.CLIENT, guard)
        finally:
            self._writes -= 1
            if self._handing_over is not None and not self._writes and not self._handing_over.done():
                self._handing_over.set_result(None)
        self.after_append()
        return result

    def after_append(self) -> None:
        """Advance the high watermark and check the delayed operations; the third step of ``append``."""
        if self.leading.appended():
            self.check_delayed()
        else:
            self.purgatory.check_after_append()

    @property
    def plain_reads(self) -> PlainReads | None:
        """The way of plain reads, or None if the log is offline or deleted."""
        log = None if self.is_deleted else self._log.get()
        return None if log is None else log.plain_reads

    # --- replication ---

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

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
            met = await wait_until(
                lambda _: self.replication_error(end) is not None,
                (self,),
                self._setup.timers,
                timeout_ms,
                is_replication=True,
            )
            error = self.replication_error(end) if met else ErrorCode.REQUEST_TIMED_OUT
        if error:
            raise ApiError(error, f"{self.topic_partition}: the records below offset {end} are not replicated")

    def require_follower(self, replica_id: int, leader_epoch: int, broker_epoch: int = ANY_BROKER_EPOCH) -> None:
        """Raise ApiError as ``leading_log`` does, and if the fetching broker is not, or not yet, a follower here."""
        self.leading_log(leader_epoch)
        self.leading.require_follower(replica_id, leader_epoch, broker_epoch)

    def follower_fetched(
        self, replica_id: int, fetched: LogRead, *, log_start_offset: int, broker_epoch: int = ANY_BROKER_EPOCH
    ) -> None:
        """Record that a follower has every record below the start of ``fetched``, a read that did not diverge."""
        before = self.in_sync.followers.get(replica_id)
        moved = self.leading.fetched(replica_id, fetched, log_start_offset=log_start_offset, broker_epoch=broker_epoch)
        if moved or (before is not None and before.log_start_offset != log_start_offset):
            self.check_delayed()

    # --- reading ---

    def read(
        self,
        limits: LogReadRequest,
        *,
        leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        leader_only: bool = True,
    ) -> LogRead:
        """Return the file positions of the records from an offset on. If the fetcher's log diverges, nothing is read.
        Raise ApiError as ``log_for`` does, and OffsetOutOfRangeError."""
        log = self.log_for(leader_epoch, leader_only=leader_only)
        if last_fetched_epoch != NO_EPOCH:
            diverging = log.epochs.diverging(last_fetched_epoch, limits.start_offset)
            if diverging is not None:
                place = LogOffsetMetadata(limits.start_offset)
                return LogRead(start=place, offsets=log.offsets(), diverging=diverging)
        return log.read(limits)

    def offsets(self, leader_epoch: int = NO_EPOCH, *, leader_only: bool = True) -> LogOffsetSnapshot:
        """Return the log's offsets. Raise ApiError as ``log_for`` does."""
        return self.log_for(leader_epoch, leader_only=leader_only).offsets()

    def list_offset(
        self, timestamp: int, isolation: Isolation, leader_epoch: int = NO_EPOCH, *, leader_only: bool = True
    ) -> ListedOffset | None:
        """Return the offset for ListOffsets, or None if no record matches or the client may not read it yet. Raise
        ApiError as ``log_for`` does. Raise OFFSET_NOT_AVAILABLE if the high watermark of a new leader is still
        below the start of its epoch (KIP-207)."""
        log = self.log_for(leader_epoch, leader_only=leader_only)
        is_lagging = (
            self.in_sync.is_leader
            and isolation is not Isolation.LOG_END
            and self.in_sync.epoch_start_offset > log.high_watermark
        )
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
