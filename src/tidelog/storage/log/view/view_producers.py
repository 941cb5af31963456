"""The producers of a partition that is only read: from a snapshot and the batches after it.

The newest readable snapshot is loaded, then every batch up to the log end is replayed, as in a broker's loading. After
an unclean shutdown the snapshot must not lie above the start of the unflushed segments: it may belong to lost records.
No producer expires here, because the caller wants all existing ones. A cleanly closed log without any snapshot has no
producers, as in Kafka.

Reads only. Source: Kafka's ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.model import FileMissingError, SnapshotCorruptError
from tidelog.storage.fs import read_whole
from tidelog.storage.log.view.directory_state import Condition
from tidelog.storage.log.view.row_stream import ReadRange, RowStream, StateSource
from tidelog.storage.log.view.view_state import ViewState
from tidelog.storage.producer.entry import ProducerEntry
from tidelog.storage.producer.snapshot import parse_snapshot
from tidelog.storage.producer.state import ProducerState
from tidelog.storage.segment.file_names import FileKind, segment_file


class KnownProducers(NamedTuple):
    """The producers as of an offset; the batches from there on are not included."""

    offset: int
    entries: Sequence[ProducerEntry]


def newest_snapshot(source: StateSource, state: ViewState, bound: int) -> KnownProducers | None:
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


def snapshot_bound(state: ViewState, offset: int) -> int:
    """Return the highest offset up to ``offset`` at which snapshots are trusted."""
    return offset if state.recovered is None else min(offset, state.recovered.start_offset)


def has_no_producers(state: ViewState) -> bool:
    """Return True if a clean shutdown left no snapshot, as brokers before 0.11 do."""
    return state.condition is Condition.CLEAN and not state.listing.snapshots


def first_offset(state: ViewState) -> int:
    """Return the first offset in the files. It may be below the log start."""
    return state.segments.first.base_offset if len(state.segments) else state.log_start


def read_producers(source: StateSource) -> Mapping[int, ProducerEntry]:
    """Return the producers at the log end by id.

    Raise CorruptRecordError if a batch to replay is damaged, and InvalidTransactionStateError if it lies outside its
    producer's open transaction.
    """
    state = source.state
    if has_no_producers(state):
        return {}
    end = state.log_end.message_offset
    known = newest_snapshot(source, state, snapshot_bound(state, end))
    if known is None:
        known = KnownProducers(first_offset(state), ())
    replayed = ProducerState()
    for entry in known.entries:
        replayed.load_entry(entry)
    for rows in RowStream(source, ReadRange(start=known.offset, end=end, control=True)):
        replayed.replay(rows.buffer, rows.table, base_position=rows.base_position)
    return replayed.producers
