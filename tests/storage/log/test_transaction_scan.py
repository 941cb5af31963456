"""Open, committed and aborted transactions from columns, compared with a model that goes batch by batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from log_maker import batch, data, marker, plain
from tidelog.kernel import BatchTable, scan_batches
from tidelog.storage.fs import LOCAL
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndexReader
from tidelog.storage.log.load.listing import list_partition
from tidelog.storage.log.view.transaction_scan import (
    ABORT,
    COMMIT,
    DATA,
    AbortedRanges,
    TransactionRows,
    marker_type,
    scan_transactions,
    transaction_rows,
)
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.segment_reader import SegmentReader


class Step(NamedTuple):
    producer: int
    kind: int


steps = st.lists(st.builds(Step, st.integers(1, 4), st.sampled_from([DATA, DATA, DATA, COMMIT, ABORT])), max_size=60)


def columns(run: list[Step], start: int) -> TransactionRows:
    offsets = np.arange(start, start + len(run), dtype=np.int64)
    return TransactionRows(
        np.array([step.producer for step in run], np.int64),
        offsets,
        offsets.copy(),
        np.array([step.kind for step in run], np.int8),
    )


class Model:
    """A simple model: one batch after the other, in a dictionary."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.completed: list[tuple[int, int, int, bool]] = []

    def run(self, run: list[Step], start: int) -> None:
        for offset, (producer, kind) in enumerate(run, start):
            if kind == DATA:
                self.open.setdefault(producer, offset)
            elif producer in self.open:
                self.completed.append((producer, self.open.pop(producer), offset, kind == ABORT))


@given(steps, st.integers(0, 60))
def test_columns_say_what_the_model_says(run: list[Step], cut: int) -> None:
    """Two scans agree with the model if the second starts with the open transactions of the first."""
    model = Model()
    model.run(run, 100)
    first = scan_transactions(columns(run[:cut], 100), {})
    second = scan_transactions(columns(run[cut:], 100 + len(run[:cut])), first.open)
    assert second.open == model.open
    found = [
        row
        for scan in (first, second)
        for row in zip(
            scan.completed.producer_id.tolist(),
            scan.completed.first_offset.tolist(),
            scan.completed.last_offset.tolist(),
            scan.completed.aborted.tolist(),
            strict=True,
        )
    ]
    assert found == model.completed
    assert second.first_unstable_offset(10**9) == min(model.open.values(), default=None)


@given(steps)
def test_aborted_batches_are_those_of_aborted_transactions(run: list[Step]) -> None:
    content = b"".join(
        data(offset, producer_id=step.producer)
        if step.kind == DATA
        else marker(offset, step.kind == COMMIT, producer_id=step.producer)
        for offset, step in enumerate(run)
    )
    model = Model()
    model.run(run, 0)
    table = scan_batches(content)
    scan = scan_transactions(transaction_rows(memoryview(content), table, 0), {})
    aborted = AbortedRanges.of([]).with_completed(scan.completed)
    expected = [
        step.kind == DATA
        and any(
            producer == step.producer and first <= offset <= last
            for producer, first, last, was_aborted in model.completed
            if was_aborted
        )
        for offset, step in enumerate(run)
    ]
    assert aborted.hits(table).tolist() == expected
    assert len(aborted) == sum(was_aborted for *_, was_aborted in model.completed)


def test_ranges_of_an_index_and_of_a_scan_count_together() -> None:
    content = data(0) + data(1, producer_id=8) + plain(2, 1) + data(10) + data(11, producer_id=8) + data(20)
    table = scan_batches(content)
    scan = scan_transactions(
        transaction_rows(memoryview(data(10) + marker(15, False)), scan_batches(data(10) + marker(15, False)), 0), {}
    )
    aborted = AbortedRanges.of([AbortedTxn(8, 0, 5, 0)]).with_completed(scan.completed)
    assert aborted.hits(table).tolist() == [False, True, False, True, False, False]
    assert AbortedRanges.of([]).hits(table).tolist() == [False] * 6


@pytest.mark.parametrize(
    "content",
    [
        batch(5, [], attributes=0x30, producer_id=7),
        batch(5, [b"x"], key=None, attributes=0x30, producer_id=7),
        batch(5, [b"x"], key=b"\0", attributes=0x30, producer_id=7),
        batch(5, [b"x"], key=b"\xff\xff\0\0", attributes=0x30, producer_id=7),
        batch(5, [b"x"], key=b"\0\0\0\5", attributes=0x30, producer_id=7),
    ],
)
def test_a_control_batch_that_is_no_marker_ends_nothing(content: bytes) -> None:
    table = scan_batches(content)
    assert marker_type(memoryview(content)) in (None, 5)
    assert len(transaction_rows(memoryview(content), table, 0).kind) == 0
    assert marker_type(memoryview(content[:61])) is None


@pytest.mark.parametrize("set_name", [SCENARIOS, FLIGHTS])
def test_real_transaction_indexes_are_what_a_scan_of_the_log_finds(golden: GoldenFactory, set_name: str) -> None:
    checked = 0
    for directory in sorted(golden(set_name).iterdir()):
        if not directory.is_dir():
            continue
        parts: list[TransactionRows] = []
        indexed: list[tuple[int, int, int]] = []
        for files in list_partition(LOCAL, directory).segments:
            with SegmentReader(LOCAL, directory, files.base_offset) as reader:
                parts += [transaction_rows(chunk.buffer, chunk.table, chunk.base_position) for chunk in reader.chunks()]
            if FileKind.TXN_INDEX in files.kinds:
                content = files.path(directory, FileKind.TXN_INDEX).read_bytes()
                indexed += [entry[:3] for entry in TransactionIndexReader(content, files.base_offset)]
        completed = scan_transactions(TransactionRows.concat(parts), {}).completed
        aborted = completed.aborted
        found = zip(
            completed.producer_id[aborted].tolist(),
            completed.first_offset[aborted].tolist(),
            completed.last_offset[aborted].tolist(),
            strict=True,
        )
        assert list(found) == indexed
        checked += len(indexed)
    assert checked > 5


def test_a_table_without_transactions_is_quick_to_pass(golden: GoldenFactory) -> None:
    table: BatchTable = scan_batches(plain(0))
    assert len(transaction_rows(memoryview(plain(0)), table, 0).kind) == 0
