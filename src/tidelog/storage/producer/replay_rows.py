"""The rows of a batch table that affect the producer state, selected with column operations.

A stretch is a producer's batches between two of its markers. The state remembers a stretch's last five batches, and its
first batch, where a transaction may begin; the other batches can be skipped. A stretch that mixes transactional and
other batches is kept complete, so that the replay finds the batch outside the transaction. Pure.
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


def relevant_rows(table: BatchTable) -> NDArray[np.intp]:
    """Return the ascending rows of all control batches and the relevant data batches with a producer id."""
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
    """Return the producer ids of a table by first appearance, and the last batch's id once more at the end."""
    ids = table.producer_id[table.producer_id >= 0]
    if not len(ids):
        return []
    distinct, first = np.unique(ids, return_index=True)
    return [*distinct[np.argsort(first)].tolist(), int(ids[-1])]
