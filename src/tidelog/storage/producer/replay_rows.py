"""Which batches of a table leave a trace in the producer state: a choice over whole columns.

A producer's batches between two of its markers are a stretch. Of a stretch the state remembers the last five batches,
and where a transaction begins, which is its first batch; the others can be passed over. A stretch in which
transactional and other batches mix is kept whole, so that the one that may not be there is found.
Pure. Called by: the producer state's replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchTable
from tidelog.storage.producer.entry import BATCHES_TO_RETAIN


class ReplayBatch(NamedTuple):
    """The columns of a batch that a replay needs."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    attributes: int
    position: int
    size: int
    is_control: bool


def replay_batches(table: BatchTable, rows: NDArray[np.intp]) -> Iterator[ReplayBatch]:
    columns = (getattr(table, name)[rows].tolist() for name in ReplayBatch._fields)
    return map(ReplayBatch._make, zip(*columns, strict=True))


def rows_with_a_trace(table: BatchTable) -> NDArray[np.intp]:
    """Row numbers, ascending: all control batches and the data batches that matter, of batches with a producer id."""
    rows = np.flatnonzero(table.producer_id >= 0)
    if len(rows) <= BATCHES_TO_RETAIN + 1:
        return rows
    order = np.argsort(table.producer_id[rows], kind="stable")
    rows = rows[order]
    producer_id, control = table.producer_id[rows], table.is_control[rows]
    transactional = table.is_transactional[rows]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (producer_id[1:] != producer_id[:-1]) | control[1:] | control[:-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=len(rows))
    from_end = np.repeat(starts + lengths, lengths) - np.arange(len(rows))
    mixed = np.logical_or.reduceat(transactional, starts) & ~np.logical_and.reduceat(transactional, starts)
    keep = begins | (from_end <= BATCHES_TO_RETAIN) | np.repeat(mixed, lengths)
    return np.sort(rows[keep])


def first_of_each_producer(table: BatchTable) -> list[int]:
    """The producer ids of a table in the order they first appear; the id of its last batch once more at the end."""
    ids = table.producer_id[table.producer_id >= 0]
    if not len(ids):
        return []
    distinct, first = np.unique(ids, return_index=True)
    return [*distinct[np.argsort(first)].tolist(), int(ids[-1])]
