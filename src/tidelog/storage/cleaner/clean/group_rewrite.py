"""The second half of a clean: groups of segments are rewritten without obsolete records.

These steps run for each chunk of each segment: validate it (``segment_chunks``), follow transactions
(``cleaned_transactions``), decide each batch's retention (``retention_rules``), filter records (``record.cleaning``),
append the rest to a cleaned segment outside the log. Then the cleaned segment is fsynced, gets the modification time of
the group's last segment, and replaces the group.

A crash leaves the old segments or the new one. An error or an abort leaves the old ones and removes the new one. If an
offset does not fit into a segment's index, that segment is split and the clean ends, so that a later one can do the
work.

Thread rule: one thread per log. Source: Kafka's ``Cleaner.cleanSegments`` and ``cleanInto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tidelog.kernel import BatchTable
from tidelog.model import LogCleaningAbortedError, OffsetOverflowError, StorageError
from tidelog.record.cleaning import BatchRetention, CleanedBatches, CleaningRules, clean_batches
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanRequest, errors_with_file
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.parallel_map import ParallelMap
from tidelog.storage.cleaner.clean.retention_rules import RetentionRules
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache, validated
from tidelog.storage.index import AbortedTxn
from tidelog.storage.segment.cleaned_segment import CleanedSegment
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk

WORTH_A_THREAD_BYTES = 1 << 20
"""A cleaned segment of this size or more is fsynced in a background thread while the next one is written."""


class _Decided(NamedTuple):
    segment: LogSegment
    chunk: Chunk
    retention: BatchRetention
    aborted: tuple[AbortedTxn, ...]
    """The transactions whose markers are in the chunk and stay."""
    rules: CleaningRules


class _Filtered(NamedTuple):
    segment: LogSegment
    cleaned: CleanedBatches
    aborted: tuple[AbortedTxn, ...]


class _Written(NamedTuple):
    target: CleanedSegment
    group: Sequence[LogSegment]
    """The segments that ``target`` replaces."""
    finished: Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRewrite:
    """The rewriting of all groups of a clean, with their shared state."""

    request: CleanRequest
    transactions: CleanedTransactions
    legacy_delete_horizon_ms: int
    """The clean removes a v0 or v1 tombstone if its segment's modification time is at most this."""
    truncation_count: int
    """The log's truncation count at the start of the clean."""
    stats: CleanerStats
    threads: ParallelMap
    table_cache: BatchTableCache

    def rewrite(self, groups: Sequence[Sequence[LogSegment]], *, at_once: bool) -> None:
        """Rewrite each group and replace it once its new segment is on disk; with ``at_once``, replace all at the end.

        Raise LogCleaningAbortedError, CorruptRecordError or StorageError; groups not replaced by then are unchanged.
        """
        written: list[_Written] = []
        targets: list[CleanedSegment] = []
        try:
            with closing(self.threads.results(self._filter, self._decided(groups))) as results:
                for group in groups:
                    self.request.check_done()
                    targets.append(self.request.log.create_cleaned_segment(group[0].base_offset))
                    self._write(targets[-1], iter(partial(next, results), None))
                    if not at_once:
                        self._swap_in(written, targets)
                    written.append(_Written(targets[-1], group, self._finish(targets[-1], group)))
                    if not at_once and written[-1].finished.done():
                        self._swap_in(written, targets)
            self._swap_in(written, targets)
        except BaseException:
            wait([one.finished for one in written])
            for target in targets:
                _discard(target)
            raise

    def _swap_in(self, written: list[_Written], targets: list[CleanedSegment]) -> None:
        """Replace the groups of ``written`` by their cleaned segments, and remove these from both lists."""
        if not written:
            return
        for one in written:
            one.finished.result()
        new = [one.target for one in written]
        old = [segment for one in written for segment in one.group]
        try:
            self.request.log.replace_segments(new, old, truncation_count=self.truncation_count)
        except StorageError:
            del targets[: len(new)]  # half done: the next loading needs these files to finish the swap
            raise
        del targets[: len(new)]
        written.clear()

    def _write(self, target: CleanedSegment, chunks: Iterable[_Filtered]) -> None:
        for segment, cleaned, aborted in chunks:
            self._append(target, segment, cleaned)
            for transaction in aborted:
                target.append_aborted(transaction)
            self.stats.note_cleaned(cleaned.stats)
            self.request.throttle(cleaned.stats.bytes_kept)

    def _finish(self, target: CleanedSegment, group: Sequence[LogSegment]) -> Future[None]:
        finish = partial(target.finish, mtime_ms=group[-1].modified_ms)
        return self.threads.submit(finish, inline=target.size < WORTH_A_THREAD_BYTES)

    def _decided(self, groups: Iterable[Sequence[LogSegment]]) -> Iterator[_Decided | None]:
        """Yield the segments' chunks with the decisions for their batches, and None after each group."""
        log = self.request.log
        for group in groups:
            retention_rules = RetentionRules(
                log.last_records_of_active_producers(),
                high_watermark=log.high_watermark,
                now_ms=self.request.now_ms,
            )
            ends = [*(segment.base_offset for segment in group[1:]), group[-1].read_next_offset()]
            for segment, end in zip(group, ends, strict=True):
                self.transactions.add(log.aborted_transactions(segment.base_offset, end))
                with errors_with_file(segment):
                    yield from self._decided_in(segment, retention_rules)
            yield None

    def _decided_in(self, segment: LogSegment, retention_rules: RetentionRules) -> Iterator[_Decided]:
        request = self.request
        rules = CleaningRules(
            now_ms=request.now_ms,
            delete_retention_ms=request.log.config.delete_retention_ms,
            retain_legacy_deletes=segment.modified_ms > self.legacy_delete_horizon_ms,
        )

        def is_gone(table: BatchTable) -> bool:
            return bool((request.offset_map.superseded(table) & ~retention_rules.stays_empty(table)).all())

        for chunk in self.table_cache.chunks(segment, is_gone, chunk_bytes=request.chunk_bytes):
            request.check_done()
            request.throttle(len(chunk.buffer))
            decided = self.transactions.decide(chunk)
            yield _Decided(
                segment, chunk, retention_rules.decide(chunk.table, decided.discardable), decided.aborted, rules
            )

    def _filter(self, decided: _Decided | None) -> _Filtered | None:
        """Filter a chunk's records. Thread rule: any thread."""
        if decided is None:
            return None
        chunk = decided.chunk
        buffer, table, base_position = validated(decided.segment, chunk) if len(chunk.buffer) else chunk
        with errors_with_file(decided.segment):
            cleaned = clean_batches(
                buffer,
                table,
                decided.retention,
                self.request.offset_map,
                decided.rules,
                base_position=base_position,
                max_record_bytes=self.request.log.config.max_decompressed_message_bytes,
            )
        return _Filtered(decided.segment, cleaned, decided.aborted)

    def _append(self, target: CleanedSegment, segment: LogSegment, cleaned: CleanedBatches) -> None:
        try:
            target.append(cleaned.data, cleaned.table)
        except OffsetOverflowError as error:
            self.request.log.split_overflowed(segment)
            raise LogCleaningAbortedError(f"the segment was split, for {error.message}", path=segment.path) from error


def _discard(target: CleanedSegment) -> None:
    try:
        target.discard()
    except StorageError:  # the first error matters more; the next loading removes the files
        target.close()
