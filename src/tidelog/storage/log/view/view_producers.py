"""The producers and transactions of a partition that is only read, from snapshots, indexes and batches.

A read begins with the newest readable producer snapshot at or below a bound; later batches show the rest. After an
unclean shutdown the bound is at most the start of the unflushed segments: later snapshots may belong to lost records. A
cleanly closed log without any snapshot has no producers, as in Kafka.

``read_producers`` replays every batch up to the log end, as in a broker's loading. No producer expires here, because
the caller wants all existing ones. ``read_transactions`` finds open and aborted transactions. Its bound is the high
watermark, because a transaction with a marker above it still limits the last stable offset. Aborted transactions with a
marker below the snapshot come from the ``.txnindex`` files, others from the batches. An unreadable ``.txnindex`` is
replaced by a walk from the snapshot below its segment.

In a held directory, the transactions below the high watermark are kept for the next time (``resume``). A reader that
follows a log then reads only the headers of later batches (``appended_batches``).

Reads only. Source: Kafka's ``ProducerStateManager``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.model import FileMissingError, IndexCorruptError, SnapshotCorruptError
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import read_whole
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndexReader
from tidelog.storage.log.view.appended_batches import LastBatch, read_appended
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.row_stream import CorruptPolicy, ReadRange, RowStream, StateSource, counted
from tidelog.storage.log.view.transaction_scan import (
    AbortedRanges,
    TransactionRows,
    TransactionScan,
    header_rows,
    scan_transactions,
)
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.producer.entry import ProducerEntry
from tidelog.storage.producer.snapshot import parse_snapshot
from tidelog.storage.producer.state import ProducerState
from tidelog.storage.segment.file_names import FileKind, segment_file


class KnownProducers(NamedTuple):
    """The producers as of an offset; the batches from there on are not included."""

    offset: int
    entries: Sequence[ProducerEntry]


def _newest_snapshot(source: StateSource, state: ViewState, bound: int) -> KnownProducers | None:
    """Return the newest readable snapshot at or below ``bound``."""
    for offset in reversed(state.listing.snapshots):
        if offset > bound:
            continue
        path = segment_file(source.directory, offset, FileKind.SNAPSHOT)
        try:
            return KnownProducers(offset, parse_snapshot(read_whole(source.fs, path), path=path))
        except (SnapshotCorruptError, FileMissingError):
            continue
    return None


def _snapshot_bound(state: ViewState, offset: int) -> int:
    """Return the highest offset up to ``offset`` at which snapshots are trusted."""
    return offset if state.recovered is None else min(offset, state.recovered.start_offset)


def _has_no_producers(state: ViewState) -> bool:
    """Return True if a clean shutdown left no snapshot, as brokers before 0.11 do."""
    return state.condition is DirectoryCondition.CLEAN and not state.listing.snapshots


def _first_offset(state: ViewState) -> int:
    """Return the first offset in the files. It may be below the log start."""
    return state.segments.first.base_offset if len(state.segments) else state.log_start


def newest_snapshot(source: StateSource) -> KnownProducers | None:
    """Return the newest readable snapshot that a read trusts, or None."""
    state = source.state
    return _newest_snapshot(source, state, _snapshot_bound(state, state.log_end.message_offset))


def read_producers(
    source: StateSource, end: int | None = None, *, advance: Advance = lambda _bytes: None
) -> Mapping[int, ProducerEntry]:
    """Return the producers at ``end`` by id, by default at the log end. A batch that begins below the end counts.

    Raise CorruptRecordError if a batch to replay is damaged, and InvalidTransactionStateError if it lies outside its
    producer's open transaction.
    """
    state = source.state
    if _has_no_producers(state):
        return {}
    end = state.log_end.message_offset if end is None else end
    known = _newest_snapshot(source, state, _snapshot_bound(state, end))
    if known is None:
        known = KnownProducers(_first_offset(state), ())
    replayed = ProducerState()
    for entry in known.entries:
        replayed.load_entry(entry)
    for rows in counted(RowStream(source, ReadRange(start=known.offset, end=end, control=True)), advance):
        replayed.replay(rows.buffer, rows.table, base_position=rows.base_position)
    return replayed.producers


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """The transactions below an offset, for a later call to continue from."""

    offset: int
    open: Mapping[int, int]
    aborted: AbortedRanges
    last: LastBatch | None = None
    """The last batch below the offset. It is None if no batch was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTransactions:
    """The transactions at one state of the log, up to its log end."""

    scan: TransactionScan
    aborted: AbortedRanges
    resume: Resume | None

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = self.scan.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)


def read_transactions(source: StateSource, high_watermark: int, resume: Resume | None = None) -> ViewTransactions:
    """Read the transactions, from ``resume`` of an earlier call if possible. Damaged batches are skipped."""
    state = source.state
    is_held = state.condition is DirectoryCondition.HELD
    read: tuple[TransactionRows, LastBatch | None] | None = None
    if is_held and resume is not None and resume.last is not None and resume.offset <= high_watermark:
        read = read_appended(source, resume.last, high_watermark)
    if read is None or resume is None:
        resume = _from_files(source, state, high_watermark)
        read = _rows_from(source, state, resume.offset, high_watermark)
    rows, last = read
    below = rows.last_offset < high_watermark
    first = scan_transactions(rows.take(below), resume.open)
    rest = scan_transactions(rows.take(~below), first.open)
    settled = resume.aborted.with_completed(first.completed)
    return ViewTransactions(
        scan=rest,
        aborted=settled.with_completed(rest.completed),
        resume=Resume(offset=high_watermark, open=first.open, aborted=settled, last=last) if is_held else None,
    )


def _from_files(source: StateSource, state: ViewState, high_watermark: int) -> Resume:
    """Read the newest usable snapshot and the transaction indexes."""
    known = _newest_snapshot(source, state, _snapshot_bound(state, high_watermark))
    if known is None and _has_no_producers(state):
        known = KnownProducers(state.log_end.message_offset, ())
    start, open_ = _start(state, known)
    indexed: list[AbortedTxn] = []
    for segment in state.segments:
        if segment.base_offset >= start:
            break
        try:
            indexed += [entry for entry in _read_index(source, segment) if entry.last_offset < start]
        except IndexCorruptError:
            # Ignore this index and later ones; the walk starts early enough to replace them.
            start, open_ = _start(state, _newest_snapshot(source, state, segment.base_offset))
            indexed = [entry for entry in indexed if entry.last_offset < start]
            break
    return Resume(offset=start, open=open_, aborted=AbortedRanges.of(indexed))


def _start(state: ViewState, known: KnownProducers | None) -> tuple[int, Mapping[int, int]]:
    """Return the offset where a walk begins, and the transactions open there."""
    if known is None:
        return _first_offset(state), {}
    return known.offset, {
        entry.producer_id: entry.transaction_first_offset
        for entry in known.entries
        if entry.transaction_first_offset is not None
    }


def _read_index(source: StateSource, segment: ViewSegment) -> list[AbortedTxn]:
    path = segment.files.path(source.directory, FileKind.TXN_INDEX)
    try:
        data = read_whole(source.fs, path)
    except FileMissingError:
        return []
    reader = TransactionIndexReader(data, segment.base_offset, path=path)
    reader.sanity_check()
    return list(reader)


def _rows_from(
    source: StateSource, state: ViewState, start: int, high_watermark: int
) -> tuple[TransactionRows, LastBatch | None]:
    """Return the transactional batches and markers from ``start`` on, and the last batch below the high watermark. A
    recovered tail was walked already."""
    end = state.log_end.message_offset
    recovered = state.recovered
    if recovered is not None:
        end = min(end, recovered.start_offset)
    stream = RowStream(source, ReadRange(start=start, end=end, control=True), on_corrupt=CorruptPolicy.SKIP)
    parts, last = [], None
    for rows in stream:
        parts.append(header_rows(rows.table, rows.batch_at))
        last = LastBatch.below(high_watermark, rows.segment_offset, rows.table, rows.batch_at) or last
    if recovered is not None:
        parts.append(recovered.transactions)
    return TransactionRows.concat(parts), last
