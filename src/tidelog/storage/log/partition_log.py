"""One partition as its only writer has it. THE lock owner: its collaborators never lock.

Owns the ``LogState`` of one partition directory: segments, offsets, leader epochs, producers. State: *open* ->
*failed* (a write did not go through: changes are refused from then on, reading goes on) -> *closed*. Every call on a
closed log is refused (ClosedError), every changing call in a forked child (ForkError).

=====================  =============================================================  ==============================
operation              what it does                                                   where
=====================  =============================================================  ==============================
append                 this process's own records, laid out as if appended singly     ``batch_write.write_run``
append_as_leader       a client's or coordinator's set: checked, given offsets        ``batch_write.write_set``
append_as_follower     a leader's batches, taken as they are                          ``follower_check``, the same
adopt                  a staged file, which becomes the segment at the log end        ``adopt.adoption``
truncate               records that the leader does not have                          ``truncation``
delete, retention      the oldest records                                             ``deletion``, ``retention``
replace, split         segments by rewritten ones, for the cleaner                    ``replacement``
read, look up          on immutable snapshots of segments and offsets, without lock   ``readable_log``
=====================  =============================================================  ==============================

An append returns when its bytes are in the page cache, ``flush`` when they are on the disk; a crash is the loader's.
What removes segments holds both locks. Called by: ``storage/manager``, the API; any thread. Source: ``UnifiedLog``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.kernel import scan_batches, validate_batches
from tidelog.model import (
    FileMissingError,
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
from tidelog.storage.log.append.append_validation import analyze, assign_offsets, check_plain
from tidelog.storage.log.append.batch_write import goes_alone, write_alone, write_plain, write_run, write_set
from tidelog.storage.log.append.follower_check import check_fetched, require_at_or_above
from tidelog.storage.log.append.produce_check import check_own, raise_for
from tidelog.storage.log.append.producer_check import Appender
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.deletion import delete_oldest, increment_log_start, retention_state
from tidelog.storage.log.directory_life import delete_directory, rename_directory, require_free
from tidelog.storage.log.flush import flush_held, note, plan_flush, sync
from tidelog.storage.log.load.loader import LoadedLog, load_log
from tidelog.storage.log.log_counters import LogCounters
from tidelog.storage.log.log_epochs import LogEpochs
from tidelog.storage.log.log_gate import LogGate
from tidelog.storage.log.log_read import LogRead, ReadLimits
from tidelog.storage.log.log_state import LogState
from tidelog.storage.log.log_tasks import LogTasks
from tidelog.storage.log.open_request import OpenRequest
from tidelog.storage.log.readable_log import ReadableLog
from tidelog.storage.log.replacement import discard, new_draft, replace_segments, split_into_drafts
from tidelog.storage.log.retention import RetentionDecision, decide_retention
from tidelog.storage.log.truncation import truncate_fully, truncate_to
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_draft import FinishedDraft, SegmentDraft

if TYPE_CHECKING:
    from typing_extensions import Buffer

_log = logging.getLogger(__name__)
_OWN = Appender(AppendOrigin.CLIENT)


class PartitionLog(ReadableLog):
    """Made by ``open``, which makes the directory too where it is missing."""

    def __init__(self, request: OpenRequest, loaded: LoadedLog) -> None:
        tasks = LogTasks(request.scheduler, self.flush, self.remove_deleted, self.write_topic_id)
        state = LogState.of(request, loaded, tasks)
        gate = LogGate(request.directory, request.on_failure)
        super().__init__(state, gate, LogCounters(last_flush_ms=request.clock.now_ms()))
        self._loaded = loaded
        self._clock = request.clock
        self._on_flush = request.on_flush
        self.epochs = LogEpochs(self._state, self._gate.lock)
        """What replicas ask about leader epochs."""
        if request.topic_id is not None:
            state.assign_topic_id(request.topic_id)

    @classmethod
    def open(cls, request: OpenRequest) -> PartitionLog:
        """Load the directory; whoever calls holds the lock of the log directory around it."""
        try:
            loaded = load_log(request.load_request)
        except FileMissingError:
            if request.fs.exists(request.directory):
                raise
            request.fs.make_dir(request.directory)
            if request.syncs_name:
                request.fs.sync_dir(request.directory.parent)
            loaded = load_log(request.load_request)
        return cls(request, loaded)

    @cached_property
    def _rules(self) -> AppendRules:
        return AppendRules.of(self.config)

    @property
    def loaded(self) -> LoadedLog:
        """What loading found and made."""
        return self._loaded

    # --- appending ---

    def append(self, buffer: bytearray, *, built_here: bool = False) -> range:
        """Append whole v2 batches; their offsets. ``buffer`` is changed: it gets offsets, leader epoch, timestamps.

        ``built_here``: the batches come from ``record.build``, so what is compressed need not be opened to be checked.
        CorruptRecordError, InvalidRecordError, RecordTooLargeError (a batch above ``max.message.bytes``) and
        RecordBatchTooLargeError (one above ``segment.bytes``) with nothing appended; StorageError fails the log.
        """
        now_ms = self._clock.now_ms()
        largest, alone = check_own(buffer, self._rules, now_ms, built_here=built_here)
        if largest > self.config.segment_bytes:
            raise RecordBatchTooLargeError(
                f"a batch of {largest} bytes is larger than a segment of {self.config.segment_bytes}"
            )
        with self._gate.changing:
            first = self.end_offset
            epoch = self._state.epochs.latest_epoch or FIRST_EPOCH
            validation = validate_batches(buffer, self._rules.of_owner, first, epoch, now_ms)
            if not validation:
                raise_for(validation)
            last_offset, max_timestamp = validation.last_offset, validation.max_timestamp
            if alone and goes_alone(self._state, buffer, last_offset, max_timestamp, epoch, now_ms):
                write_alone(self._state, buffer, last_offset, max_timestamp, _OWN)
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
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard = NO_GUARD,
        transaction_version: int = 0,
        is_replicated: bool = False,
    ) -> AppendResult:
        """Append what a client or coordinator sent; see ``append_validation``. The buffer becomes the log's.

        ``guard``: what ``start_verification`` gave, once the transaction's coordinator has said that it is open;
        ``transaction_version``: of a marker. ``is_replicated``: the high watermark moves to the log end with it.
        A duplicate of one of a producer's last five batches is answered with the first one's offsets. Errors as there,
        and OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTransactionStateError,
        TransactionCoordinatorFencedError, RecordBatchTooLargeError (more than a segment); nothing is appended then.
        """
        now_ms, rules, appender = self._clock.now_ms(), self._rules, Appender(origin, guard, transaction_version)
        result = None
        if not rules.log_append_time and (plain := check_plain(buffer, rules, origin, now_ms)) is not None:
            with self._gate.changing:
                result = write_plain(self._state, buffer, plain, appender, leader_epoch, now_ms)
                if result is not None and is_replicated:
                    self._state.move_high_watermark_to_end()
        if result is None:
            result = self._append_any(buffer, appender, leader_epoch, now_ms, is_replicated=is_replicated)
        if result.has_grown:
            self._flush_by_messages()
        return result

    def _append_any(
        self, buffer: bytearray, appender: Appender, leader_epoch: int, now_ms: int, *, is_replicated: bool
    ) -> AppendResult:
        """``append_as_leader`` for whatever may come."""
        size = len(buffer)
        try:
            analysis = analyze(buffer, self._rules, appender.origin, now_ms=now_ms, leader_epoch=leader_epoch)
        except TidelogError as error:
            with self._gate.lock:
                self.counters.note_refused(error, size)
            raise
        with self._gate.changing:
            state = self._state
            end = state.offsets.log_end.message_offset
            if analysis.is_empty:
                return AppendResult.nothing(end, self.log_start_offset)
            validated = assign_offsets(analysis, first_offset=end, leader_epoch=leader_epoch, now_ms=now_ms)
            result = AppendResult.of_leader(validated, self.log_start_offset)
            batches, last_offset, max_timestamp = validated.batches, result.last_offset, result.max_timestamp
            self.counters.converted_records += validated.stats.converted_records
            if goes_alone(state, batches, last_offset, max_timestamp, leader_epoch, now_ms):
                duplicate = write_alone(state, batches, last_offset, max_timestamp, appender)
            else:
                duplicate = write_set(state, memoryview(batches), validated.table(), appender, now_ms)
            if is_replicated:
                state.move_high_watermark_to_end()
            return result if duplicate is None else AppendResult.of_duplicate(duplicate, self.log_start_offset)

    def append_as_follower(self, buffer: Buffer, leader_epoch: int) -> AppendResult:
        """Append a leader's batches as they are; a cut last one, and those of a later epoch, are left out.

        CorruptRecordError, OffsetsOutOfOrderError, UnexpectedAppendOffsetError (below the log end),
        RecordBatchTooLargeError (more than a segment) with nothing appended; StorageError fails the log.
        """
        now_ms = self._clock.now_ms()
        table = check_fetched(buffer, leader_epoch)
        with self._gate.changing:
            if not len(table):
                return AppendResult.nothing(self.end_offset, self.log_start_offset)
            require_at_or_above(buffer, table, self.end_offset, self.log_start_offset)
            write_set(self._state, memoryview(buffer), table, Appender(AppendOrigin.REPLICATION), now_ms)
            result = AppendResult.of_follower(table, self.log_start_offset)
        self._flush_by_messages()
        return result

    def adopt(self, path: Path, *, is_decided: bool = False) -> AppendResult:
        """Make a staged file the segment at the log end; durable on return. Errors, and ``is_decided``: as
        ``read_staged``; nothing is appended then. Repeated until it returns, it is done once.
        """
        staged = read_staged(self._state.fs, path, self.config, is_decided=is_decided)
        with self._gate.files, self._gate.changing:
            return adopt(self._state, staged)

    def start_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool = True
    ) -> VerificationGuard:
        """The guard for a first batch of a transaction; ``NO_GUARD`` where it has data here (KIP-890).

        InvalidProducerEpochError for an older epoch than the log knows.
        """
        with self._gate.changing:
            begin, now_ms = self._state.producers.state.maybe_start_verification, self._clock.now_ms()
            return begin(producer_id, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms)

    def roll(self) -> None:
        """Begin a new segment at the log end, unless the active one is empty."""
        with self._gate.changing:
            if self._state.active.size:
                self._state.roll(self.end_offset)

    # --- the high watermark ---

    def update_high_watermark(self, offset: int) -> int:
        """As a follower: take over the leader's, within [log start, log end]; what it is then. ValueError below 0."""
        if offset < 0:
            raise ValueError(f"a high watermark of {offset}")
        with self._gate.changing:
            self._state.offsets.update_high_watermark(LogOffsetMetadata(offset))
            self._state.after_high_watermark()
            return self.high_watermark

    def maybe_increment_high_watermark(self, wanted: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """As the leader: what it was before, None where it does not move forward. ValueError past the log end."""
        with self._gate.changing:
            self._state.resolve_high_watermark()
            before = self._state.offsets.maybe_increment_high_watermark(wanted)
            if before is not None:
                self._state.after_high_watermark()
            return before

    # --- leader epochs ---

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Note that a leader epoch begins; ValueError for negative values. ``epochs`` answers the questions."""
        with self._gate.changing:
            self._state.assign_epoch(epoch, start_offset)

    def begin_epoch(self, epoch: int) -> None:
        """As its leader: note that an epoch begins at the log end, which waits for no disk."""
        with self._gate.changing:
            self._state.begin_epoch(epoch)

    # --- cutting at the end ---

    def truncate_to(self, offset: int) -> bool:
        """Cut the records from ``offset`` on; whether there were any. ValueError for a negative offset."""
        with self._gate.files, self._gate.changing:
            return truncate_to(self._state, offset)

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """Remove all records; the log goes on, empty, at ``offset``, and starts there unless told otherwise."""
        with self._gate.files, self._gate.changing:
            truncate_fully(self._state, offset, log_start_offset)

    # --- cutting at the start ---

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Delete the records below ``offset``; False where they are gone already.

        Their segments go with the next ``delete_old_segments``. OffsetOutOfRangeError above the high watermark.
        """
        with self._gate.files:
            with self._gate.changing:
                has_moved = increment_log_start(self._state, offset)
            self._write_epochs_behind()
        return has_moved

    def delete_old_segments(self) -> RetentionDecision:
        """Apply retention now; what went, and why. The files go with ``remove_deleted``."""
        with self._gate.files:
            with self._gate.changing:
                decision = decide_retention(retention_state(self._state, self._clock.now_ms()))
                delete_oldest(self._state, len(decision.deletions))
            self._write_epochs_behind()
        for deletion in decision.deletions:
            _log.info("Deleted segment %d of %s: %s", deletion.segment.base_offset, self.directory, deletion.reason)
        return decision

    def remove_deleted(self) -> int:
        """Remove the files of segments deleted ``file.delete.delay.ms`` ago; how many segments."""
        with self._gate.files, self._gate.changing:
            return self._state.deleted.remove_due(self._clock.now_ms())

    def remove_expired_producers(self) -> int:
        """Forget the producers that were silent longer than ``producer.id.expiration.ms``; how many."""
        with self._gate.changing:
            return self._state.producers.state.remove_expired(self._clock.now_ms())

    # --- rewriting ---

    def draft_segment(self, base_offset: int) -> SegmentDraft:
        """An empty segment beside the log, to be written and to replace others."""
        self._gate.guard.check()
        self._gate.require_open()
        return new_draft(self._state, base_offset)

    def replace_segments(self, new: Sequence[FinishedDraft], old: Sequence[LogSegment], *, cuts: int) -> None:
        """Put finished drafts in the place of segments that are not appended to any more; see ``replacement``.

        ``cuts``: as it was when the old segments were read. LogCleaningAbortedError, with nothing changed, where they
        are not what was read, or not there, any more.
        """
        with self._gate.files, self._gate.changing:
            replace_segments(self._state, new, old, cuts)

    def split_overflowed(self, segment: LogSegment) -> list[int]:
        """Split a segment with offsets that no index can hold; the base offsets of those that take its place.

        StorageError where there is nothing to split, or it cannot be; CorruptRecordError where it is damaged.
        """
        self._gate.guard.check()
        cuts = self.cuts
        drafts = split_into_drafts(self._state, segment)
        try:
            self.replace_segments(drafts, [segment], cuts=cuts)
        except LogCleaningAbortedError:
            discard(drafts)
            raise
        return [draft.base_offset for draft in drafts]

    # --- flushing and ending ---

    def flush(self, up_to: int | None = None, *, force: bool = False) -> int:
        """Sync all below ``up_to`` (None: what was appended), ``force``: although it is; the new recovery point."""
        self._gate.guard.check()
        self._gate.require_open()
        return self._sync(up_to, force=force)

    def _sync(self, up_to: int | None, *, force: bool) -> int:
        with self._gate.files:
            begun_ms = self._clock.monotonic_ms()
            try:
                with self._gate.lock:
                    self._gate.require_sound()
                    plan = plan_flush(self._state, up_to, force=force)
                if plan is None:
                    return self.recovery_point
                sync(self._state, plan)
            except StorageError as error:
                self._gate.fail(error)
                raise
            took_ms = self._clock.monotonic_ms() - begun_ms
            with self._gate.lock:
                self._gate.require_sound()  # an append may have failed meanwhile, in the middle of a roll
                self.counters.note_flush(took_ms)
                if note(self._state, plan):
                    self.counters.last_flush_ms = self._clock.now_ms()
        self._on_flush(took_ms)
        return self.recovery_point

    def close(self) -> None:
        """An orderly end: last producer snapshot, last time entry, indexes trimmed, all on disk. Idempotent.

        A failed log, and one inherited by a forked child, only lets go of its files.
        """
        if self._gate.is_closed:
            return
        if not self._gate.guard.is_owner or self._gate.failure is not None:
            self.close_handlers()
            return
        with self._gate.moving:
            self._state.topic.write()
            self._state.producers.take_snapshot()
            self._state.active.on_become_inactive()
            self._state.dirty.add(self._state.active.base_offset)
            self._gate.is_closed = True  # from here on nothing comes in that would not be synced
        try:
            self._sync(None, force=True)
            self._state.close()
        except StorageError as error:
            self._gate.fail(error)
            self._state.close_handlers()
            raise

    def close_handlers(self, *, offline: StorageError | None = None) -> None:
        """Let go of the files as they are, when the disk failed; the next loading has to recover. Idempotent.

        ``offline``: why its disk was given up; whoever asks the log for anything from then on is told.
        """
        with self._gate.ending():
            self._gate.offline = self._gate.offline or offline
            self._state.close_handlers()

    # --- its directory ---

    def assign_topic_id(self, topic_id: uuid.UUID) -> None:
        """InconsistentTopicIdError where the log belongs to another topic of the same name."""
        with self._gate.changing:
            self._state.assign_topic_id(topic_id)

    @property
    def takes_its_time(self) -> bool:
        """The next append waits for the disk: with it the topic's id is written."""
        return self._state.topic.is_unwritten

    def write_topic_id(self) -> None:
        """Write the id to the disk, so that the first append need not. In a background thread; appends may go on."""
        with self._gate.files:
            if self._gate.is_closed or self._gate.failure is not None:
                return
            try:
                self._state.topic.write()
            except StorageError as error:
                self._gate.fail(error)
                raise

    def rename(self, directory: Path, *, retires: bool = False, syncs: bool = True) -> None:
        """Give the directory another name, DirectoryError where that exists; one that ``retires`` is only read then.

        ``syncs``: the name is on the disk then, else it is left to who renames many.
        """
        with self._gate.files:
            require_free(self._state, directory)
            with self._gate.moving:
                self._state.topic.write()
                rename_directory(self._state, directory, syncs=syncs)
                self._gate.directory = directory
                self._gate.is_retired |= retires

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Another log takes the place of this flushed one: appends wait, and are refused unless the block fails."""
        with self._gate.files, self._gate.lock:
            with self._gate.changing:
                flush_held(self._state)
                self._state.resolve_high_watermark()
            yield  # what fails in it is the other log's, or was reported by a read
            self._gate.is_retired = True

    def delete(self) -> None:
        """Remove the log with its directory, at once; it may be closed already."""
        self._gate.guard.check()
        with self._gate.files, self._gate.lock:
            self._gate.is_closed = True
            delete_directory(self._state)

    def update_config(self, config: LogConfig) -> None:
        """Go by other settings from now on; the segments that there are keep their index sizes and interval."""
        with self._gate.changing:
            self._rules = AppendRules.of(config)
            self._state.go_by(config)

    # --- inside ---

    def _write_epochs_behind(self) -> None:
        """With the files, but without the lock: appends do not wait for the disk."""
        try:
            self._state.write_epochs_behind()
        except StorageError as error:
            self._gate.fail(error)
            raise

    def _flush_by_messages(self) -> None:
        offsets = self._state.offsets
        if offsets.log_end.message_offset - offsets.recovery_point >= self._state.config.flush_messages:
            self.flush()


__all__ = ["Isolation", "LogRead", "OpenRequest", "PartitionLog", "ReadLimits"]
