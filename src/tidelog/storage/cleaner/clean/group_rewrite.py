"""The second half of a clean: a group of segments is rewritten into one, without what is obsolete.

Per segment, per chunk: what is wrong ends it (``sound_chunks``), transactions are followed (``cleaned_transactions``),
the fate of each batch is decided (``fate_rules``), records are filtered (``record.cleaning``), what stays is appended
to a draft beside the log. The draft is synced, gets the time of the group's last segment, and takes its place.

A crash leaves the old segments or the new one; an error or an abort leaves the old ones and no draft. Where a segment
has an offset that no index can hold it is split, and the clean given up, to be done again.

Called by: ``clean_log``. Thread rule: one thread a log. Source: Kafka's ``Cleaner.cleanSegments`` and ``cleanInto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tidelog.model import LogCleaningAbortedError, OffsetOverflowError, StorageError
from tidelog.record.cleaning import BatchFates, CleanedBatches, CleaningRules, clean_batches
from tidelog.storage.cleaner.clean.clean_request import CleanRequest, located
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.cleaner_stats import CleanerStats
from tidelog.storage.cleaner.clean.fate_rules import FateRules
from tidelog.storage.cleaner.clean.side_by_side import SideBySide
from tidelog.storage.cleaner.clean.sound_chunks import sound_chunks
from tidelog.storage.index import AbortedTransaction
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_draft import SegmentDraft
from tidelog.storage.segment.segment_reader import Chunk


class _Judged(NamedTuple):
    chunk: Chunk
    fates: BatchFates
    aborted: tuple[AbortedTransaction, ...]
    """Whose markers are in the chunk, and stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRewrite:
    """What the groups of one clean share."""

    request: CleanRequest
    transactions: CleanedTransactions
    legacy_delete_horizon_ms: int
    """Tombstones of v0 and v1 go where their segment is not younger than that."""
    cuts: int
    """Those of the log when the clean began."""
    stats: CleanerStats
    threads: SideBySide

    def rewrite(self, groups: Iterable[Sequence[LogSegment]], *, at_once: bool) -> None:
        """Each group's rewritten segment takes its place when it is written; ``at_once``: all when the last one is.

        LogCleaningAbortedError, CorruptRecordError, StorageError: groups that were not replaced are as they were then.
        """
        drafts: list[SegmentDraft] = []
        old: list[LogSegment] = []
        try:
            for group in groups:
                self.request.check_done()
                drafts.append(self.request.log.draft_segment(group[0].base_offset))
                self._write(drafts[-1], group)
                old += group
                if not at_once:
                    self._swap_in(drafts, old)
            self._swap_in(drafts, old)
        except BaseException:
            for draft in drafts:
                _discard(draft)
            raise

    def _swap_in(self, drafts: list[SegmentDraft], old: list[LogSegment]) -> None:
        """Both are empty afterwards."""
        if not drafts:
            return
        try:
            self.request.log.replace_segments(drafts, old, cuts=self.cuts)
        except StorageError:
            drafts.clear()  # half way: together, the files there say what they are to the next loading
            raise
        drafts.clear()
        old.clear()

    def _write(self, draft: SegmentDraft, segments: Sequence[LogSegment]) -> None:
        log = self.request.log
        fates = FateRules(
            log.last_records_of_active_producers(),
            first_uncleanable=self.request.first_uncleanable,
            now_ms=self.request.now_ms,
        )
        ends = [*(segment.base_offset for segment in segments[1:]), segments[-1].read_next_offset()]
        for segment, end in zip(segments, ends, strict=True):
            self.transactions.add(log.aborted_transactions(segment.base_offset, end))
            self._rewrite_into(draft, segment, fates)
        draft.finish(mtime_ms=segments[-1].modified_ms)

    def _rewrite_into(self, draft: SegmentDraft, segment: LogSegment, fates: FateRules) -> None:
        rules = CleaningRules(
            now_ms=self.request.now_ms,
            delete_retention_ms=self.request.log.config.delete_retention_ms,
            retain_legacy_deletes=segment.modified_ms > self.legacy_delete_horizon_ms,
        )
        judged = self._judged(segment, fates)
        with located(segment):
            for cleaned, aborted in self.threads.results(partial(self._clean, rules), judged):
                self._append(draft, segment, cleaned)
                for transaction in aborted:
                    draft.append_aborted(transaction)
                self.stats.note_cleaned(cleaned.stats)
                self.request.throttle(cleaned.stats.bytes_kept)

    def _judged(self, segment: LogSegment, fates: FateRules) -> Iterator[_Judged]:
        for chunk in sound_chunks(segment, 0, chunk_bytes=self.request.chunk_bytes):
            self.request.check_done()
            self.request.throttle(len(chunk.buffer))
            verdicts = self.transactions.judge(chunk)
            yield _Judged(chunk, fates.fates(chunk.table, verdicts.discardable), verdicts.aborted)

    def _clean(self, rules: CleaningRules, judged: _Judged) -> tuple[CleanedBatches, tuple[AbortedTransaction, ...]]:
        """In any thread."""
        buffer, table, base_position = judged.chunk
        offset_map = self.request.offset_map
        cleaned = clean_batches(buffer, table, judged.fates, offset_map, rules, base_position=base_position)
        return cleaned, judged.aborted

    def _append(self, draft: SegmentDraft, segment: LogSegment, cleaned: CleanedBatches) -> None:
        try:
            draft.append(cleaned.data, cleaned.table)
        except OffsetOverflowError as error:
            self.request.log.split_overflowed(segment)
            raise LogCleaningAbortedError(f"the segment was split, for {error.message}", path=segment.path) from error


def _discard(draft: SegmentDraft) -> None:
    try:
        draft.discard()
    except StorageError:  # the first error says more; the next loading removes what is left
        draft.close()
