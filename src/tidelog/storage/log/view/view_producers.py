"""The producers of a partition that is only read: from its snapshots, and from the batches behind them.

The newest snapshot that can be read and lies below what may be of another life (in a killed directory, the unflushed
segments) is taken over, then every batch up to the log end is replayed, as a broker does when it loads the log. No
producer expires here: whoever asks wants to see what is there. A cleanly closed log without any snapshot has no
producers (as for Kafka).

Reads only. Called by: the view's transactions, reports. Source: Kafka's ``UnifiedLog.rebuildProducerState``.
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
    """The producers as of an offset; the batches from there on are not among what they did."""

    offset: int
    entries: Sequence[ProducerEntry]


def newest_snapshot(source: StateSource, state: ViewState, bound: int) -> KnownProducers | None:
    """The newest snapshot at or below ``bound`` that can be read."""
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
    """Up to where snapshots can be believed, below ``offset``."""
    return offset if state.recovered is None else min(offset, state.recovered.start_offset)


def has_no_producers(state: ViewState) -> bool:
    """Whether an orderly stop left no snapshot, as brokers before 0.11 do."""
    return state.condition is Condition.CLEAN and not state.listing.snapshots


def first_offset(state: ViewState) -> int:
    """The first that the files hold, below the log start perhaps."""
    return state.segments.first.base_offset if len(state.segments) else state.log_start


def read_producers(source: StateSource) -> Mapping[int, ProducerEntry]:
    """By producer id, as of the log end.

    CorruptRecordError where a batch that has to be replayed is damaged, InvalidTransactionStateError where it lies
    outside of its producer's open transaction.
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
