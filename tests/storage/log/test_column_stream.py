"""Records as columns from the rows of a stream: the chunks that are delivered before damage is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.batch_bytes import batch, record
from tidelog import kernel
from tidelog.model import CorruptRecordError
from tidelog.storage.log.view.column_stream import ALL_COLUMNS, column_chunks
from tidelog.storage.log.view.row_stream import Rows, SkippedRange

GOOD = batch([record(0), record(1)])
UNREADABLE = batch([record(0, length=3)], base_offset=2)
"""A batch with a correct CRC and an unreadable record."""


def rows() -> Rows:
    data = GOOD + UNREADABLE + batch([record(0)], base_offset=3)
    return Rows(memoryview(data), kernel.scan_batches(data), 0, Path("t-0/0.log"))


def test_the_records_before_an_unreadable_batch_come_first() -> None:
    chunks = column_chunks([rows()], ALL_COLUMNS, 0, 10)
    assert next(chunks).columns.offset.tolist() == [0, 1]
    with pytest.raises(CorruptRecordError) as caught:
        next(chunks)
    assert (caught.value.path, caught.value.position, caught.value.offset) == ("t-0/0.log", len(GOOD), 2)


def test_an_unreadable_batch_is_left_out_and_told_of_at_its_place() -> None:
    told: list[SkippedRange | list[int]] = []
    for chunk in column_chunks([rows()], ALL_COLUMNS, 0, 10, on_skipped=told.append):
        told += [chunk.columns.offset.tolist()]
    before, damage, behind = told
    assert (before, behind) == ([0, 1], [3])
    assert isinstance(damage, SkippedRange)
    assert (damage.position, damage.size_bytes, damage.offset) == (len(GOOD), len(UNREADABLE), 2)
