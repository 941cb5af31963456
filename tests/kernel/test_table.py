"""The batch table as a value: slices, masks, joins, pickles, and the layout that C and Python must share."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from kernel.batch_bytes import batch, message, record
from kernel.twins import Twin, both, table_value
from tidelog import kernel
from tidelog.kernel.table import COLUMNS, ROW_BYTES, BatchTable, Stop

DATA = b"".join(batch([record(0)] * 1, base_offset=n) for n in range(8)) + message(8)


def number_in_c(name: str, text: str) -> int:
    found = re.search(rf"{name} = (\d+)", text)
    assert found
    return int(found[1])


def test_the_layout_in_c_is_the_one_in_python() -> None:
    text = Path(kernel.__file__).with_name("_layout.pxd").read_text()
    (struct,) = re.findall(r"cdef struct Rows:\n((?:    .*\n)+)", text)
    fields = re.findall(r"(\w+)\* (\w+)", struct)
    widths = {"int64_t": 8, "int32_t": 4, "uint32_t": 4, "int16_t": 2, "int8_t": 1, "uint8_t": 1}
    assert [(name, widths[kind]) for kind, name in fields] == [(n, np.dtype(d).itemsize) for n, d in COLUMNS]
    assert number_in_c("ROW_BYTES", text) == ROW_BYTES
    assert number_in_c("COLUMN_COUNT", text) == len(COLUMNS)


@both
@pytest.mark.parametrize(
    "rows", [slice(2, 5), slice(None), slice(5, 2), slice(-3, None), slice(0, 9, 3), slice(20, 30)]
)
def test_take_a_slice(twin: Twin, rows: slice) -> None:
    table = twin.scan_batches(DATA)
    part = table.take(rows)
    assert list(part.rows()) == list(table.rows())[rows]
    assert (part.end_position, part.stop) == (table.end_position, table.stop)


@both
def test_take_of_a_take(twin: Twin) -> None:
    table = twin.scan_batches(DATA)
    assert table.take(slice(2, 8)).take(slice(1, 3)).base_offset.tolist() == [3, 4]


@both
def test_take_a_mask_or_rows(twin: Twin) -> None:
    table = twin.scan_batches(DATA)
    assert table.take(table.base_offset % 2 == 0).base_offset.tolist() == [0, 2, 4, 6, 8]
    assert table.take(np.array([5, 1])).base_offset.tolist() == [5, 1]


@both
def test_concat(twin: Twin) -> None:
    first = twin.scan_batches(DATA)
    last = twin.scan_batches(DATA[:-1], base_position=len(DATA))
    joined = BatchTable.concat([first, last])
    assert list(joined.rows()) == list(first.rows()) + list(last.rows())
    assert (joined.end_position, joined.stop) == (last.end_position, Stop.PARTIAL)
    assert joined.partial_size == last.partial_size
    with pytest.raises(ValueError, match="at least one"):
        BatchTable.concat([])


@both
def test_pickle(twin: Twin) -> None:
    table = twin.scan_batches(DATA).take(slice(1, 4))
    assert table_value(pickle.loads(pickle.dumps(table))) == table_value(table)


@both
def test_columns_are_read_only_and_keep_their_memory(twin: Twin) -> None:
    column = twin.scan_batches(DATA).base_offset
    assert column.tolist() == list(range(9))
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


@both
def test_one_row_is_that_row_of_all(twin: Twin) -> None:
    data = b"".join(
        batch([record(0)], base_offset=2**40 + n, base_timestamp=-n, attributes=n, base_sequence=n * 1000)
        for n in range(7)
    )
    table = twin.scan_batches(data + message(2**50), base_position=2**33)
    for part in (table, table.take(slice(2, 6)), table.take(np.array([5, 1, 3])), BatchTable.concat([table, table])):
        rows = list(part.rows())
        assert [part.row(index) for index in range(-len(part), len(part))] == rows + rows
        for index in (len(part), -len(part) - 1):
            with pytest.raises(IndexError):
                part.row(index)
    value = table.row(0)
    assert {type(field) for field in value} == {int, bool}


@both
def test_take_all_copies_nothing(twin: Twin) -> None:
    table = twin.scan_batches(DATA)
    part = table.take(np.ones(len(table), np.bool_))
    assert np.shares_memory(part.position, table.position)
    assert table_value(part) == table_value(table)


@both
def test_rows_are_plain_values(twin: Twin) -> None:
    row = twin.scan_batches(DATA).row(-1)
    assert [type(value) for value in row] == [bool if name.endswith("_ok") else int for name in row._fields]


@both
def test_summary(twin: Twin) -> None:
    table = twin.scan_batches(
        batch([record(0)], base_offset=3, leader_epoch=2)
        + batch([record(0), record(1)], base_offset=4, leader_epoch=1, attributes=0x10, producer_id=9)
        + message(7)
    )
    assert table.summary._asdict() == {
        "first_offset": 3,
        "last_offset": 7,
        "crcs_ok": True,
        "sound": True,
        "attributes": 0x10,
        "leader_epoch": 2,
        "producer_id": 9,
    }
    assert table.take(slice(0, 1)).summary._replace(first_offset=0, last_offset=0) == (0, 0, True, True, 0, 2, -1)
    assert table.take(slice(0, 0)).summary == twin.scan_batches(b"").summary == (-1, -1, True, True, 0, -1, -1)


@both
@pytest.mark.parametrize(
    ("second", "crcs_ok"),
    [
        (batch([record(0)], base_offset=4), True),  # not above the previous base offset
        (batch([record(0)], base_offset=5, crc=1), False),
        (batch([record(0)], base_offset=5, record_count=9), True),
    ],
)
def test_a_summary_of_what_is_not_sound(twin: Twin, second: bytes, crcs_ok: bool) -> None:
    table = twin.scan_batches(batch([record(0)], base_offset=4) + second)
    assert (table.summary.crcs_ok, table.summary.sound) == (crcs_ok, False)
    assert table.take(slice(0, 1)).summary.sound
