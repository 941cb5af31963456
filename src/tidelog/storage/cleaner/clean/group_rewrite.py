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
"""A draft of as many is synced while the next one is written."""


class _Judged(NamedTuple):
    segment: LogSegment
    chunk: Chunk
    fates: BatchFates
    aborted: tuple[AbortedTransaction, ...]
    """Whose markers are in the chunk, and stay."""
    rules: CleaningRules


class _Filtered(NamedTuple):
    segment: LogSegment
    cleaned: CleanedBatches
    aborted: tuple[AbortedTransaction, ...]


class _Written(NamedTuple):
    draft: SegmentDraft
    group: Sequence[LogSegment]
    """Whose place it takes."""
    finished: Future[None]


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
    seen: SeenBatches

    def rewrite(self, groups: Sequence[Sequence[LogSegment]], *, at_once: bool) -> None:
        """Each group's rewritten segment takes its place when it is on the disk; ``at_once``: all when the last one is.

        LogCleaningAbortedError, CorruptRecordError, StorageError: groups that were not replaced are as they were then.
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
        """What is ``written`` takes its place, and is in neither list afterwards."""
        if not written:
            return
        for one in written:
            one.finished.result()
        new = [one.draft for one in written]
        old = [segment for one in written for segment in one.group]
        try:
            self.request.log.replace_segments(new, old, cuts=self.cuts)
        except StorageError:
            del drafts[: len(new)]  # half way: together, the files there say what they are to the next loading
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
        """Chunk by chunk; None where a group ends."""
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
        """In any thread."""
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
    except StorageError:  # the first error says more; the next loading removes what is left
        draft.close()
