"""The only writer of one partition. It owns the locks: its collaborators never lock.

It owns the ``LogState`` of one partition directory: segments, offsets, leader epochs, producers. A log is *open*,
*failed* (a write failed: changes are refused, reads continue) or *closed*. Reads and changes of a closed log raise
ClosedError. In a forked child, changes raise ForkError.

=====================  =============================================================  ==============================
operation              what it does                                                   where
=====================  =============================================================  ==============================
append                 this process's own records, laid out as if appended singly     ``batch_write.write_run``
append_as_leader       a client's or coordinator's set: checked, given offsets        ``batch_write.write_set``
append_as_follower     a leader's batches, unchanged                                  ``follower_check``, the same
adopt                  a staged file, which becomes the segment at the log end        ``adopt.adoption``
truncate               removes records that the leader does not have                  ``truncation``
delete, retention      remove the oldest records                                      ``record_removal``, ``retention``
replace, split         replace segments by rewritten ones, for the cleaner            ``replacement``
read, look up          use immutable snapshots of segments and offsets, without lock  ``readable_log``
=====================  =============================================================  ==============================

An append returns when its bytes are in the page cache, ``flush`` when they are on the disk. Operations that remove
segments hold both locks: ``files``, then ``lock``. Thread rule: any thread. Source: Kafka's ``UnifiedLog``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.kernel import PlainAppends, scan_batches, validate_batches
from tidelog.model import (
    Isolation,
    LogCleaningAbortedError,
    LogOffsetMetadata,
    RecordBatchTooLargeError,
    StorageError,
    TidelogError,
)
from tidelog.storage.log.adopt.adoption import FIRST_EPOCH, adopt
from tidelog.storage.log.adopt.staged_segment import read_staged
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.append_validation import analyze, assign_offsets
from tidelog.storage.log.append.batch_write import fits_fast_path, write_run, write_set, write_single
from tidelog.storage.log.append.follower_check import FetchedBatches, require_at_or_above
from tidelog.storage.log.append.follower_write import write_fetched
from tidelog.storage.log.append.own_check import check_own, raise_for
from tidelog.storage.log.append.producer_check import Appender
from tidelog.storage.log.change.flush import flush_held, note, plan_flush, sync
from tidelog.storage.log.change.record_removal import delete_oldest, increment_log_start, truncate_fully, truncate_to
from tidelog.storage.log.change.replacement import (
    create_cleaned_segment,
    discard,
    replace_segments,
    split_into_cleaned_segments,
)
from tidelog.storage.log.change.retention import RetentionDecision, RetentionState, decide_retention
from tidelog.storage.log.load.loader import LoadedLog
from tidelog.storage.log.load.open_request import OpenRequest, load_or_create, new_state
from tidelog.storage.log.readable_log import ReadableLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_counters import LogCounters
from tidelog.storage.log.state.log_epochs import LogEpochs
from tidelog.storage.log.state.log_lifecycle import LogLifecycle
from tidelog.storage.log.state.log_read import LogRead, LogReadRequest
from tidelog.storage.log.state.log_tasks import LogTasks
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard
from tidelog.storage.segment.cleaned_segment import CleanedSegment, FinishedSegment
from tidelog.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log = logging.getLogger(__name__)
_CLIENT = AppendOrigin.CLIENT  # a lookup of the member for each plain append would take longer than its check
_OWN = Appender(_CLIENT)


class PartitionLog(ReadableLog):
    """An open log. ``open`` creates it, with its directory if that is missing."""

    def __init__(self, request: OpenRequest, loaded: LoadedLog) -> None:
        tasks = LogTasks(request.scheduler, self.flush, self.remove_deleted, self.write_topic_id, self.write_epochs)
        state = new_state(request, loaded, tasks)
        lifecycle = LogLifecycle(request.directory, request.on_failure)
        super().__init__(state, lifecycle, LogCounters(last_flush_ms=request.clock.now_ms()))
        self.loaded = loaded
        self._clock = request.clock
        self._on_flush = request.on_flush
        self.epochs = LogEpochs(self._state, self._lifecycle.lock)
        if request.topic_id is not None:
            state.assign_topic_id(request.topic_id)
        if state.dropped_epoch is not None:
            tasks.after_dropped_epoch()

    @classmethod
    def open(cls, request: OpenRequest) -> PartitionLog:
        """Load the directory; create it if it is missing. The caller holds the log directory's lock."""
        return cls(request, load_or_create(request))

    @cached_property
    def _rules(self) -> AppendRules:
        return AppendRules.of(self.config)

    @cached_property
    def plain_appends(self) -> PlainAppends[AppendResult]:
        return PlainAppends(self._state, self._lifecycle, self._rules, AppendResult.nothing(0, 0))

    # --- appending ---

    def append(self, buffer: bytearray, *, built_here: bool = False) -> range:
        """Append complete v2 batches and return their offsets. Offsets, epoch and timestamps are set in ``buffer``.

        ``built_here`` means that the batches come from ``record.build``: their check need not decompress them. Raise
        CorruptRecordError, InvalidRecordError, RecordTooLargeError (a batch above ``max.message.bytes``) or
        RecordBatchTooLargeError (above ``segment.bytes``) with nothing appended. A StorageError fails the log.
        """
        now_ms = self._clock.now_ms()
        largest, alone = check_own(buffer, self._rules, now_ms, built_here=built_here)
        if largest > self.config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"a batch of {largest} bytes is larger than a segment of {self.config.segment_bytes}"
            )
        with self._lifecycle.writing:
            first = self.end_offset
            epoch = self._state.epochs.latest_epoch or FIRST_EPOCH
            validation = validate_batches(buffer, self._rules.of_owner, first, epoch, now_ms)
            if not validation:
                raise_for(validation)
            last_offset, max_timestamp = validation.last_offset, validation.max_timestamp
            if alone and fits_fast_path(self._state, buffer, last_offset, max_timestamp, epoch, now_ms):
                write_single(self._state, buffer, last_offset, max_timestamp, _OWN)
            else:
                table = scan_batches(buffer, verify_crc=False)
                if len(table):
                    write_run(self._state, memoryview(buffer), table, now_ms)
            end = self.end_offset
        self._flush_by_messages()
        return range(first, end)

    def append_as_leader(
        self,
        buffer: bytearray,
        *,
        leader_epoch: int,
        origin: AppendOrigin = _CLIENT,
        guard: VerificationGuard = NO_GUARD,
        transaction_version: int = 0,
        is_replicated: bool = False,
    ) -> AppendResult:
        """Append a client's or coordinator's batches; see ``append_validation``. The log takes over ``buffer``.

        ``guard`` comes from ``start_verification``, after the coordinator has confirmed that the transaction is open.
        ``transaction_version`` is a marker's. ``is_replicated`` also moves the high watermark to the log end. Return
        the original's offsets for a duplicate of one of a producer's last five batches. Raise the errors of
        ``append_validation``, OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError,
        TransactionCoordinatorFencedError or RecordBatchTooLargeError (larger than a segment) with nothing appended.
        """
        now_ms = self._clock.now_ms()
        append = self.plain_appends.append
        if origin is _CLIENT and (plain := append(buffer, leader_epoch, now_ms, is_replicated)) is not None:
            return plain
        appender = Appender(origin, guard, transaction_version)
        result = self._append_any(buffer, appender, leader_epoch, now_ms, is_replicated=is_replicated)
        if result.has_grown:
            self._flush_by_messages()
        return result

    def _append_any(
        self, buffer: bytearray, appender: Appender, leader_epoch: int, now_ms: int, *, is_replicated: bool
    ) -> AppendResult:
        """Append any batches: the general way, for all that ``PlainAppends`` leaves."""
        size = len(buffer)
        try:
            analysis = analyze(buffer, self._rules, appender.origin, now_ms=now_ms, leader_epoch=leader_epoch)
        except TidelogError as error:
            with self._lifecycle.lock:
                self.counters.note_refused(error, size)
            raise
        with self._lifecycle.writing:
            state = self._state
            end = state.offsets.log_end.message_offset
            if analysis.is_empty:
                return AppendResult.nothing(end, self.log_start_offset)
            validated = assign_offsets(analysis, first_offset=end, leader_epoch=leader_epoch, now_ms=now_ms)
            result = AppendResult.of_leader(validated, self.log_start_offset)
            batches, last_offset, max_timestamp = validated.batches, result.last_offset, result.max_timestamp
            self.counters.converted_records += validated.stats.converted_records
            if fits_fast_path(state, batches, last_offset, max_timestamp, leader_epoch, now_ms):
                duplicate = write_single(state, batches, last_offset, max_timestamp, appender)
            else:
                duplicate = write_set(state, memoryview(batches), validated.table(), appender, now_ms)
            if is_replicated:
                state.move_high_watermark_to_end()
            return result if duplicate is None else AppendResult.of_duplicate(duplicate, self.log_start_offset)

    def append_as_follower(self, buffer: Buffer, leader_epoch: int) -> AppendResult:
        """Append a leader's batches unchanged. Leave out a partial last batch and batches of a later epoch.

        Raise CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError (below the log end) or
        RecordBatchTooLargeError (larger than a segment) with nothing appended. A StorageError fails the log.
        """
        batches = FetchedBatches.of(buffer, leader_epoch)
        if batches.damage is not None:
            raise batches.damage
        return self.append_fetched(batches)

    def append_fetched(self, batches: FetchedBatches) -> AppendResult:
        """Append checked batches into one segment, whatever the damage after them. Raise as ``append_as_follower``."""
        now_ms = self._clock.now_ms()
        data, table, _damage = batches
        with self._lifecycle.writing:
            if not len(table):
                return AppendResult.nothing(self.end_offset, self.log_start_offset)
            require_at_or_above(data, table, self.end_offset, self.log_start_offset)
            write_fetched(self._state, data, table, now_ms)
            result = AppendResult.of_follower(table, self.log_start_offset)
        self._flush_by_messages()
        return result

    def adopt(self, path: Path, *, is_decided: bool = False) -> AppendResult:
        """Make a staged file the segment at the log end; durable on return. Repeated calls adopt it only once.

        ``is_decided`` and the errors are those of ``read_staged``. Nothing is appended after an error.
        """
        staged = read_staged(self._state.fs, path, self.config, is_decided=is_decided)
        with self._lifecycle.files, self._lifecycle.writing:
            return adopt(self._state, staged)

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool = True
    ) -> VerificationGuard:
        """Return the guard for a transaction's first batch, or ``NO_GUARD`` if it has data here (KIP-890).

        Raise InvalidProducerEpochError if the epoch is older than the log's.
        """
        with self._lifecycle.writing:
            begin, now_ms = self._state.producers.state.maybe_start_verification, self._clock.now_ms()
            return begin(producer_id, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms)

    def roll(self) -> None:
        """Start a new segment at the log end, unless the active one is empty."""
        with self._lifecycle.writing:
            if self._state.active.size:
                self._state.roll(self.end_offset)

    # --- the high watermark ---

    def update_high_watermark(self, offset: int) -> int:
        """Set a follower's high watermark within [log start, log end] and return it. Raise ValueError below 0."""
        if offset < 0:
            raise ValueError(f"a high watermark of {offset}")
        with self._lifecycle.writing:
            self._state.offsets.update_high_watermark(LogOffsetMetadata(offset))
            self._state.after_high_watermark()
            return self.high_watermark

    def maybe_increment_high_watermark(self, wanted: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Move a leader's high watermark forward. Return the old one, or None. Raise ValueError past the log end."""
        with self._lifecycle.writing:
            self._state.resolve_high_watermark()
            before = self._state.offsets.maybe_increment_high_watermark(wanted)
            if before is not None:
                self._state.after_high_watermark()
            return before

    # --- leader epochs ---

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note the start of a leader epoch; durable on return. Raise ValueError for negative values."""
        with self._lifecycle.writing:
            self._state.assign_epoch(epoch, start_offset)

    def begin_epoch(self, epoch: int) -> None:
        """Note that a leader epoch begins at the log end, without waiting for the disk."""
        with self._lifecycle.writing:
            self._state.begin_epoch(epoch)

    # --- truncation ---

    def truncate_to(self, offset: int) -> bool:
        """Remove the records from ``offset`` on. Return True if there were any. Raise ValueError below 0."""
        with self._lifecycle.files, self._lifecycle.writing:
            return truncate_to(self._state, offset)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Remove all records. The empty log continues at ``offset``, which is also the default log start."""
        with self._lifecycle.files, self._lifecycle.writing:
            truncate_fully(self._state, offset, log_start_offset)

    # --- deleting old records ---

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Delete the records below ``offset``. Return False if they are deleted already.

        The next ``delete_old_segments`` removes their segments. Raise OffsetOutOfRangeError above the high watermark.
        """
        with self._lifecycle.files:
            with self._lifecycle.writing:
                has_moved = increment_log_start(self._state, offset)
            self._lifecycle.write(self._state.write_stale_epochs)
        return has_moved

    def delete_old_segments(self) -> RetentionDecision:
        """Apply retention and return the deletions with their reasons. ``remove_deleted`` removes the files later."""
        with self._lifecycle.files:
            with self._lifecycle.writing:
                decision = decide_retention(RetentionState.of(self._state, self._clock.now_ms()))
                delete_oldest(self._state, len(decision.deletions))
            self._lifecycle.write(self._state.write_stale_epochs)
        for deletion in decision.deletions:
            _log.info("Deleted segment %d of %s: %s", deletion.segment.base_offset, self.directory, deletion.reason)
        return decision

    def remove_deleted(self) -> int:
        """Remove the files of segments deleted ``file.delete.delay.ms`` ago. Return the number of segments."""
        with self._lifecycle.files, self._lifecycle.writing:
            return self._state.deleted.remove_due(self._clock.now_ms())

    def remove_expired_producers(self) -> int:
        """Remove producers idle for longer than ``producer.id.expiration.ms``. Return their number."""
        with self._lifecycle.writing:
            return self._state.producers.state.remove_expired(self._clock.now_ms())

    # --- rewriting ---

    def create_cleaned_segment(self, base_offset: int) -> CleanedSegment:
        """Return an empty segment outside the log, to be filled and to replace others."""
        self._lifecycle.guard.check()
        self._lifecycle.require_open()
        return create_cleaned_segment(self._state, base_offset)

    def replace_segments(
        self, new: Sequence[FinishedSegment], old: Sequence[LogSegment], *, truncation_count: int
    ) -> None:
        """Replace inactive segments by finished segments; see ``replacement``.

        ``truncation_count`` was read with the old segments. Raise LogCleaningAbortedError, with nothing
        changed, if the old segments have changed or are gone since.
        """
        with self._lifecycle.files, self._lifecycle.writing:
            replace_segments(self._state, new, old, truncation_count)

    def split_overflowed(self, segment: LogSegment) -> list[int]:
        """Split a segment whose offsets no index can hold. Return the base offsets of the new segments.

        Raise StorageError if there is nothing to split or a split is impossible, CorruptRecordError if it is damaged.
        """
        self._lifecycle.guard.check()
        truncation_count = self.truncation_count
        cleaned_segments = split_into_cleaned_segments(self._state, segment)
        try:
            self.replace_segments(cleaned_segments, [segment], truncation_count=truncation_count)
        except LogCleaningAbortedError:
            discard(cleaned_segments)
            raise
        return [cleaned.base_offset for cleaned in cleaned_segments]

    # --- flushing and ending ---

    def flush(self, up_to: int | None = None, *, force: bool = False) -> int:
        """Sync the records below ``up_to`` (None: all) and return the recovery point. ``force`` syncs them again."""
        self._lifecycle.guard.check()
        self._lifecycle.require_open()
        return self._sync(up_to, force=force)

    def _sync(self, up_to: int | None, *, force: bool) -> int:
        with self._lifecycle.files:
            begun_ms = self._clock.monotonic_ms()
            try:
                with self._lifecycle.lock:
                    self._lifecycle.require_healthy()
                    plan = plan_flush(self._state, up_to, force=force)
                if plan is None:
                    return self.recovery_point
                sync(self._state, plan)
            except StorageError as error:
                self._lifecycle.fail(error)
                raise
            took_ms = self._clock.monotonic_ms() - begun_ms
            with self._lifecycle.lock:
                self._lifecycle.require_healthy()  # during the sync, an append may have failed in the middle of a roll
                self.counters.note_flush(took_ms)
                if note(self._state, plan):
                    self.counters.last_flush_ms = self._clock.now_ms()
        self._on_flush(took_ms)
        return self.recovery_point

    def close(self) -> None:
        """Close cleanly: write the producer snapshot and last time entry, trim indexes, sync all files. Idempotent.

        A failed log, or one inherited by a forked child, only closes its files.
        """
        if self._lifecycle.is_closed:
            return
        if not self._lifecycle.guard.is_owner or self._lifecycle.failure is not None:
            self.close_handlers()
            return
        with self._lifecycle.renaming:
            self._state.topic.write()
            self._state.producers.take_snapshot()
            self._state.finish_active()
            self._lifecycle.is_closed = True  # a later append would not be covered by the sync below
        try:
            if self._state.has_unsynced:
                self._sync(None, force=True)
            self._state.close()
        except StorageError as error:
            self._lifecycle.fail(error)
            self._state.close_handlers()
            raise

    def close_handlers(self, *, offline: StorageError | None = None) -> None:
        """Close the files as they are after a disk failure; the next load must recover the log. Idempotent.

        ``offline`` is the disk's failure. Later calls on the log raise a StorageError that names it.
        """
        with self._lifecycle.closing():
            self._lifecycle.offline = self._lifecycle.offline or offline
            self._state.close_handlers()

    # --- its directory ---

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """Set the topic's id. Raise InconsistentTopicIdError if the log belongs to another topic of the same name."""
        with self._lifecycle.writing:
            self._state.assign_topic_id(topic_id)

    @property
    def append_waits_for_disk(self) -> bool:
        """True if the next append waits for the disk, because it must write the topic id first."""
        return self._state.topic.is_unwritten

    def write_topic_id(self) -> None:
        """Write the topic id, so that the first append need not. Thread rule: a background thread; appends go on."""
        with self._lifecycle.files:
            self._lifecycle.write(self._state.topic.write)

    def write_epochs(self) -> None:
        """Write the leader epochs if their file is stale. Thread rule: that of ``write_topic_id``."""
        with self._lifecycle.files:
            self._lifecycle.write(self._state.write_stale_epochs)

    def rename(self, directory: Path, *, retires: bool = False, syncs: bool = True) -> None:
        """Rename the directory. Raise DirectoryError if the new name exists. ``retires`` makes the log read-only.

        ``syncs`` makes the name durable on return; otherwise the caller syncs the parent directory.
        """
        with self._lifecycle.files:
            self._state.require_free(directory)
            with self._lifecycle.renaming:
                self._state.topic.write()
                self._state.rename(directory, syncs=syncs)
                self._lifecycle.directory = directory
                self._lifecycle.is_retired |= retires

    @contextmanager
    def being_replaced(self) -> Iterator[None]:
        """Flush the log, and hold up appends while another log replaces it. Retire it unless the block fails."""
        with self._lifecycle.files, self._lifecycle.lock:
            with self._lifecycle.writing:
                flush_held(self._state)
                self._state.resolve_high_watermark()
            yield  # outside of ``writing``, so that an error in the block does not fail this log
            self._lifecycle.is_retired = True

    def delete(self) -> None:
        """Remove the log and its directory immediately. The log may be closed already."""
        self._lifecycle.guard.check()
        with self._lifecycle.files, self._lifecycle.lock:
            self._lifecycle.is_closed = True
            self._state.delete()

    def update_config(self, config: LogConfig) -> None:
        """Apply other settings from now on. Existing segments keep their index sizes and index interval."""
        with self._lifecycle.writing:
            self._state.apply_config(config)
            self._rules = AppendRules.of(config)
            self.__dict__.pop("plain_appends", None)

    # --- inside ---

    def _flush_by_messages(self) -> None:
        offsets = self._state.offsets
        if offsets.log_end.message_offset - offsets.recovery_point >= self._state.config.flush_messages:
            self.flush()


__all__ = ["Isolation", "LogRead", "LogReadRequest", "OpenRequest", "PartitionLog"]
