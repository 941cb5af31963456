"""The second half of a clean: groups of segments are rewritten without obsolete records.

These steps run for each chunk of each segment: validate it (``sound_chunks``), follow transactions
(``cleaned_transactions``), decide the fate of each batch (``fate_rules``), filter records (``record.cleaning``), append
the rest to a draft outside the log. Then the draft is fsynced, gets the modification time of the group's last segment,
and replaces the group.

A crash leaves the old segments or the new one. An error or an abort leaves the old ones and no draft. If an offset does
not fit into a segment's index, that segment is split and the clean ends, so that a later one can do the work.

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
from tidelog.record.cleaning import BatchFates, CleanedBatches, CleaningRules, clean_batches
from tidelog.storage.cleaner.clean.clean_request import CleanRequest, located
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.cleaner.clean.fate_rules import FateRules
from tidelog.storage.cleaner.clean.seen_batches import SeenBatches
from tidelog.storage.cleaner.clean.side_by_side import SideBySide
from tidelog.storage.cleaner.clean.sound_chunks import checked
from tidelog.storage.index import AbortedTransaction
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_draft import SegmentDraft
from tidelog.storage.segment.segment_reader import Chunk

WORTH_A_THREAD_BYTES = 1 << 20
"""A draft of this size or more is fsynced in a background thread while the next one is written."""


class _Judged(NamedTuple):
    segment: LogSegment
    chunk: Chunk
    fates: BatchFates
    aborted: tuple[AbortedTransaction, ...]
    """The transactions whose markers are in the chunk and stay."""
    rules: CleaningRules


class _Filtered(NamedTuple):
    segment: LogSegment
    cleaned: CleanedBatches
    aborted: tuple[AbortedTransaction, ...]


class _Written(NamedTuple):
    draft: SegmentDraft
    group: Sequence[LogSegment]
    """The segments that the draft replaces."""
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
    threads: SideBySide
    seen: SeenBatches

    def rewrite(self, groups: Sequence[Sequence[LogSegment]], *, at_once: bool) -> None:
        """Rewrite each group and replace it once its new segment is on disk; with ``at_once``, replace all at the end.

        Raise LogCleaningAbortedError, CorruptRecordError or StorageError; groups not replaced by then are unchanged.
        """
        written: list[_Written] = []
        drafts: list[SegmentDraft] = []
        try:
            with closing(self.threads.results(self._filter, self._judged(groups))) as results:
                for group in groups:
                    self.request.check_done()
                    drafts.append(self.request.log.draft_segment(group[0].base_offset))
                    self._write(drafts[-1], iter(partial(next, results), None))
                    if not at_once:
                        self._swap_in(written, drafts)
                    written.append(_Written(drafts[-1], group, self._finish(drafts[-1], group)))
                    if not at_once and written[-1].finished.done():
                        self._swap_in(written, drafts)
            self._swap_in(written, drafts)
        except BaseException:
            wait([one.finished for one in written])
            for draft in drafts:
                _discard(draft)
            raise

    def _swap_in(self, written: list[_Written], drafts: list[SegmentDraft]) -> None:
        """Replace the groups of ``written`` by their drafts, and remove these from both lists."""
        if not written:
            return
        for one in written:
            one.finished.result()
        new = [one.draft for one in written]
        old = [segment for one in written for segment in one.group]
        try:
            self.request.log.replace_segments(new, old, truncation_count=self.truncation_count)
        except StorageError:
            del drafts[: len(new)]  # half done: the next loading needs these files to finish the swap
            raise
        del drafts[: len(new)]
        written.clear()

    def _write(self, draft: SegmentDraft, chunks: Iterable[_Filtered]) -> None:
        for segment, cleaned, aborted in chunks:
            self._append(draft, segment, cleaned)
            for transaction in aborted:
                draft.append_aborted(transaction)
            self.stats.note_cleaned(cleaned.stats)
            self.request.throttle(cleaned.stats.bytes_kept)

    def _finish(self, draft: SegmentDraft, group: Sequence[LogSegment]) -> Future[None]:
        finish = partial(draft.finish, mtime_ms=group[-1].modified_ms)
        return self.threads.begin(finish, alone=draft.size < WORTH_A_THREAD_BYTES)

    def _judged(self, groups: Iterable[Sequence[LogSegment]]) -> Iterator[_Judged | None]:
        """Yield the segments' chunks with their fates, and None after each group."""
        log = self.request.log
        for group in groups:
            fates = FateRules(
                log.last_records_of_active_producers(),
                high_watermark=log.high_watermark,
                now_ms=self.request.now_ms,
            )
            ends = [*(segment.base_offset for segment in group[1:]), group[-1].read_next_offset()]
            for segment, end in zip(group, ends, strict=True):
                self.transactions.add(log.aborted_transactions(segment.base_offset, end))
                with located(segment):
                    yield from self._judged_of(segment, fates)
            yield None

    def _judged_of(self, segment: LogSegment, fates: FateRules) -> Iterator[_Judged]:
        request = self.request
        rules = CleaningRules(
            now_ms=request.now_ms,
            delete_retention_ms=request.log.config.delete_retention_ms,
            retain_legacy_deletes=segment.modified_ms > self.legacy_delete_horizon_ms,
        )

        def is_gone(table: BatchTable) -> bool:
            return bool((request.offset_map.superseded(table) & ~fates.stay_empty(table)).all())

        for chunk in self.seen.chunks(segment, is_gone, chunk_bytes=request.chunk_bytes):
            request.check_done()
            request.throttle(len(chunk.buffer))
            verdicts = self.transactions.judge(chunk)
            yield _Judged(segment, chunk, fates.fates(chunk.table, verdicts.discardable), verdicts.aborted, rules)

    def _filter(self, judged: _Judged | None) -> _Filtered | None:
        """Filter a chunk's records. Thread rule: any thread."""
        if judged is None:
            return None
        chunk = judged.chunk
        buffer, table, base_position = checked(judged.segment, chunk) if len(chunk.buffer) else chunk
        with located(judged.segment):
            cleaned = clean_batches(
                buffer,
                table,
                judged.fates,
                self.request.offset_map,
                judged.rules,
                base_position=base_position,
                max_record_bytes=self.request.log.config.max_decompressed_message_bytes,
            )
        return _Filtered(judged.segment, cleaned, judged.aborted)

    def _append(self, draft: SegmentDraft, segment: LogSegment, cleaned: CleanedBatches) -> None:
        try:
            draft.append(cleaned.data, cleaned.table)
        except OffsetOverflowError as error:
            self.request.log.split_overflowed(segment)
            raise LogCleaningAbortedError(f"the segment was split, for {error.message}", path=segment.path) from error


def _discard(draft: SegmentDraft) -> None:
    try:
        draft.discard()
    except StorageError:  # the first error matters more; the next loading removes the files
        draft.close()
