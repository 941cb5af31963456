"""Open and aborted transactions of a partition that is only read, from snapshots, indexes and batches.

The newest readable producer snapshot at or below a bound holds the transactions open there; later batches show the
rest. The bound is the high watermark, because a transaction with a marker above it still limits the last stable offset.
After an unclean shutdown the bound is at most the start of the unflushed segments: later snapshots may belong to lost
records. Aborted transactions with a marker below the snapshot come from the ``.txnindex`` files, others from the
batches. An unreadable ``.txnindex`` is replaced by a walk from the snapshot below its segment.

In a held directory, the result below the high watermark is kept for the next time (``resume``), so that a reader that
follows a log reads each batch once. Above it the owner may still truncate.

Reads only. Source: Kafka's ``ProducerStateManager``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.model import FileMissingError, IndexCorruptError
from tidelog.storage.fs import read_whole
from tidelog.storage.index.transaction_index import AbortedTransaction, TransactionIndexReader
from tidelog.storage.log.view.aborted_ranges import AbortedRanges
from tidelog.storage.log.view.directory_state import Condition
from tidelog.storage.log.view.row_stream import OnCorrupt, ReadRange, RowStream, StateSource
from tidelog.storage.log.view.transaction_scan import (
    TransactionRows,
    TransactionScan,
    scan_transactions,
    transaction_rows,
)
from tidelog.storage.log.view.view_producers import (
    KnownProducers,
    first_offset,
    has_no_producers,
    newest_snapshot,
    snapshot_bound,
)
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.segment.file_names import FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The transactions below an offset, for a later call to continue from."""

    offset: int
    open: Mapping[int, int]
    aborted: AbortedRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """The transactions at one state of the log, up to its log end."""

    scan: TransactionScan
    aborted: AbortedRanges
    resume: Resume | None

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = self.scan.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)


def read_transactions(source: StateSource, high_watermark: int, resume: Resume | None = None) -> Transactions:
    """Read the transactions, from ``resume`` of an earlier call if possible. Damaged batches are skipped."""
    state = source.state
    if resume is None or resume.offset > high_watermark or state.condition is not Condition.HELD:
        resume = _from_files(source, state, high_watermark)
    rows = _rows_from(source, state, resume.offset)
    below = rows.last_offset < high_watermark
    first = scan_transactions(rows.take(below), resume.open)
    rest = scan_transactions(rows.take(~below), first.open)
    settled = resume.aborted.with_completed(first.completed)
    is_held = state.condition is Condition.HELD
    return Transactions(
        scan=rest,
        aborted=settled.with_completed(rest.completed),
        resume=Resume(offset=high_watermark, open=first.open, aborted=settled) if is_held else None,
    )


def _from_files(source: StateSource, state: ViewState, high_watermark: int) -> Resume:
    """Read the newest usable snapshot and the transaction indexes."""
    known = newest_snapshot(source, state, snapshot_bound(state, high_watermark))
    if known is None and has_no_producers(state):
        known = KnownProducers(state.log_end.message_offset, ())
    start, open_ = _start(state, known)
    indexed: list[AbortedTransaction] = []
    for segment in state.segments:
        if segment.base_offset >= start:
            break
        try:
            indexed += [entry for entry in _read_index(source, segment) if entry.last_offset < start]
        except IndexCorruptError:
            # Ignore this index and later ones; the walk starts early enough to replace them.
            start, open_ = _start(state, newest_snapshot(source, state, segment.base_offset))
            indexed = [entry for entry in indexed if entry.last_offset < start]
            break
    return Resume(offset=start, open=open_, aborted=AbortedRanges.of(indexed))


def _start(state: ViewState, known: KnownProducers | None) -> tuple[int, Mapping[int, int]]:
    """Return the offset where a walk begins, and the transactions open there."""
    if known is None:
        return first_offset(state), {}
    return known.offset, {
        entry.producer_id: entry.transaction_first_offset
        for entry in known.entries
        if entry.transaction_first_offset is not None
    }


def _read_index(source: StateSource, segment: ViewSegment) -> list[AbortedTransaction]:
    path = segment.files.path(source.directory, FileKind.TXN_INDEX)
    try:
        data = read_whole(source.fs, path)
    except FileMissingError:
        return []
    reader = TransactionIndexReader(data, segment.base_offset, path=path)
    reader.sanity_check()
    return list(reader)


def _rows_from(source: StateSource, state: ViewState, start: int) -> TransactionRows:
    """Return the transactional batches and markers from ``start`` on. A recovered tail was walked already."""
    end = state.log_end.message_offset
    recovered = state.recovered
    if recovered is not None:
        end = min(end, recovered.start_offset)
    stream = RowStream(source, ReadRange(start=start, end=end, control=True), on_corrupt=OnCorrupt.SKIP)
    parts = [transaction_rows(rows.buffer, rows.table, rows.base_position) for rows in stream]
    if recovered is not None:
        parts.append(recovered.transactions)
    return TransactionRows.concat(parts)
