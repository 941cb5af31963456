"""Columns to Arrow and back: types, nulls, slices, refusals, and no copies."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from record_columns import columns_from_records
from tidelog.kernel import RecordColumns
from tidelog.model import Header, InvalidRecordError, Record, TimestampType
from tidelog.record.arrow import HEADERS_TYPE, TimestampUnit, from_arrow, record_schema, to_array, to_arrow
from tidelog.record.rows import columns_from_lists, iter_records
from tidelog.testing.record_strategies import records_of

RECORDS = [
    Record(5, -1, TimestampType.CREATE, b"k", None, (Header("a", b"x"), Header("ü", None), Header("", b""))),
    Record(7, 2**60, TimestampType.LOG_APPEND, None, b""),
    Record(2**40, 0, TimestampType.NONE, b"", b"v" * 10),
    Record(2**40 + 9, 1, TimestampType.CREATE, b"", b"v", (Header("b", b"y"),)),
]


def as_new(records: list[Record]) -> list[Record]:
    """Return the records as they are when they are read back as new records."""
    return [r._replace(offset=i, timestamp_type=TimestampType.CREATE) for i, r in enumerate(records)]


def records_from(data: pa.RecordBatch | pa.Table, **options: int) -> list[Record]:
    return list(iter_records(from_arrow(data, **options)))


def column(name: str, array: pa.Array) -> pa.RecordBatch:
    columns = {"value": pa.nulls(len(array), pa.binary())} | {name: array}
    return pa.record_batch(columns)


def test_columns_and_their_types() -> None:
    batch = to_arrow(columns_from_records(RECORDS))
    batch.validate(full=True)
    assert batch.schema == record_schema()
    assert batch.slice(0, 1).to_pylist()[0] == {
        "offset": 5,
        "timestamp": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC),
        "timestamp_type": 0,
        "key": b"k",
        "value": None,
        "headers": [{"key": "a", "value": b"x"}, {"key": "ü", "value": None}, {"key": "", "value": b""}],
    }
    assert batch["headers"].to_pylist()[1:3] == [[], []]
    assert batch["headers"].null_count == 0
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [r.timestamp for r in RECORDS]


def test_timestamps_as_spark_wants_them_or_as_they_are() -> None:
    columns = columns_from_records(RECORDS)
    micro = to_arrow(columns, timestamps="us")
    assert micro.schema == record_schema(timestamps="us")
    assert micro["timestamp"].cast(pa.int64()).to_pylist() == [-1_000, None, 0, 1_000]
    plain = to_arrow(columns, timestamps="int64")
    assert plain.schema == record_schema(timestamps="int64")
    assert plain["timestamp"].to_pylist() == [-1, 2**60, 0, 1]


def test_columns_not_decoded_are_left_out() -> None:
    batch = to_arrow(columns_from_lists([b"v"]))
    assert batch.schema == record_schema(keys=False, headers=False)


def test_header_keys_that_are_not_utf8_are_replaced() -> None:
    columns = columns_from_lists([b"v"], headers=[[("ab", b"1")]])
    spoilt = RecordColumns(
        offset=columns.offset,
        timestamp=columns.timestamp,
        timestamp_type=columns.timestamp_type,
        header_offsets=columns.header_offsets,
        header_key_offsets=columns.header_key_offsets,
        header_key_data=memoryview(b"a\xff"),
        header_keys_are_utf8=False,
        header_value_offsets=columns.header_value_offsets,
        header_value_data=columns.header_value_data,
    )
    assert to_arrow(spoilt)["headers"].to_pylist() == [[{"key": "a\ufffd", "value": b"1"}]]
    assert [record.headers for record in iter_records(spoilt)] == [(Header("a\ufffd", b"1"),)]


def test_buffers_are_lent_not_copied() -> None:
    columns = columns_from_records(RECORDS)
    batch = to_arrow(columns)
    assert batch["offset"].buffers()[1].address == columns.offset.ctypes.data
    assert batch["timestamp"].buffers()[1].address == columns.timestamp.ctypes.data
    assert batch["value"].buffers()[2].address == pa.py_buffer(columns.value_data).address
    back = from_arrow(batch)
    assert pa.py_buffer(back.value_data).address == pa.py_buffer(columns.value_data).address


@given(records=records_of())
def test_round_trip(records: list[Record]) -> None:
    batch = to_arrow(columns_from_records(records))
    batch.validate(full=True)
    assert records_from(batch) == as_new(records)
    for start in range(len(records)):
        assert records_from(batch.slice(start)) == as_new(records[start:])
        assert records_from(batch.slice(start, 1)) == as_new(records[start : start + 1])


def test_tables_of_several_chunks() -> None:
    batch = to_arrow(columns_from_records(RECORDS))
    table = pa.Table.from_batches([batch, batch.slice(1), batch.slice(2, 0), batch.slice(3)])
    assert records_from(table) == as_new(RECORDS + RECORDS[1:] + RECORDS[3:])
    assert records_from(table.slice(0, 0)) == []
    assert records_from(pa.table({"value": pa.chunked_array([], pa.binary())})) == []


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "ü"]),
        pa.array(["a", None, "ü"], pa.large_string()),
        pa.array(["a", None, "ü"], pa.string_view()),
        pa.array([b"a", None, "ü".encode()], pa.large_binary()),
        pa.array([b"a", None, "ü".encode()], pa.binary_view()),
        pa.array(["a", None, "ü"]).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("name", ["key", "value"])
def test_strings_of_every_type(name: str, array: pa.Array) -> None:
    expected = [b"a", None, "ü".encode()]
    for start in range(3):
        assert [getattr(r, name) for r in records_from(column(name, array.slice(start)))] == expected[start:]


@pytest.mark.parametrize("offsets", [None, pa.py_buffer(b"")], ids=["none", "empty"])
def test_no_strings_need_no_offsets(offsets: pa.Buffer | None) -> None:
    """Arrow allows an empty array without its one offset."""
    array = pa.Array.from_buffers(pa.binary(), 0, [None, offsets, pa.py_buffer(b"")])
    columns = from_arrow(column("key", array))
    assert columns.key_offsets is not None
    assert columns.key_offsets.tolist() == [0]
    assert list(iter_records(columns)) == []


def test_null_columns() -> None:
    nulls = pa.record_batch({name: pa.nulls(2) for name in ("key", "value", "timestamp", "headers")})
    assert records_from(nulls, default_timestamp_ms=9) == [
        Record(i, 9, TimestampType.CREATE, None, None) for i in range(2)
    ]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None, 3]), [1, 99, 3]),
        (pa.array([1, None, 3], pa.int32()), [1, 99, 3]),
        (pa.array([1, None, -3], pa.timestamp("s")), [1_000, 99, -3_000]),
        (pa.array([1, None, -3], pa.timestamp("ms", tz="UTC")), [1, 99, -3]),
        (pa.array([1_999, None, -1], pa.timestamp("us", tz="Europe/Berlin")), [1, 99, -1]),
        (pa.array([1_999_999, None, -1], pa.timestamp("ns")), [1, 99, -1]),
        (pa.array([datetime.date(2020, 1, 1), None, datetime.date(1970, 1, 1)]), [1_577_836_800_000, 99, 0]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_timestamps_of_every_unit(array: pa.Array, expected: list[int]) -> None:
    assert [r.timestamp for r in records_from(column("timestamp", array), default_timestamp_ms=99)] == expected


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None, []], HEADERS_TYPE),
        pa.array([[{"value": b"1", "key": b"a"}, {"key": b"b", "value": None}], None, []]),
        pa.array([[("a", b"1"), ("b", None)], None, []], pa.map_(pa.string(), pa.binary())),
        pa.array(
            [[{"key": "a", "value": "1"}, {"key": "b", "value": None}], None, []],
            pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.string())])),
        ),
    ],
    ids=lambda array: str(array.type),
)
def test_headers_of_every_type(array: pa.Array) -> None:
    expected = [(Header("a", b"1"), Header("b", None)), (), ()]
    for start in range(3):
        assert [r.headers for r in records_from(column("headers", array.slice(start)))] == expected[start:]


@pytest.mark.parametrize(
    "data",
    [
        {"key": pa.array([b"k"])},
        {"value": pa.array([b"v"]), "kye": pa.array([b"k"])},
        {"value": pa.array([1])},
        {"value": pa.array([b"v"]), "timestamp": pa.array([1.5])},
        {"value": pa.array([b"v"]), "timestamp": pa.array(["2020-01-01"])},
        {"value": pa.array([b"v"]), "timestamp": pa.array([2**62], pa.timestamp("s"))},
        {"value": pa.array([b"v"]), "timestamp": pa.array([2**63], pa.uint64())},
        {"value": pa.array([b"v"]), "headers": pa.array([["x"]])},
        {"value": pa.array([b"v"]), "headers": pa.array([1])},
        {"value": pa.array([b"v"]), "headers": pa.array([[None]], HEADERS_TYPE)},
        {"value": pa.array([b"v"]), "headers": pa.array([[{"key": None, "value": b"1"}]])},
        {"value": pa.array([b"v"]), "headers": pa.array([[{"key": b"\xff", "value": b"1"}]])},
        {"value": pa.array([b"v"]), "headers": pa.array([[{"key": "a", "values": b"1"}]])},
    ],
    ids=lambda data: ",".join(f"{name} {array.type}" for name, array in data.items()),
)
def test_what_does_not_fit_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecordError):
        from_arrow(pa.record_batch(data))


def test_a_column_given_twice_is_refused() -> None:
    with pytest.raises(InvalidRecordError):
        from_arrow(pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"]))


@pytest.mark.parametrize("timestamps", ["ms", "us", "int64"])
def test_a_column_alone_is_that_of_the_batch(timestamps: TimestampUnit) -> None:
    columns = columns_from_records(RECORDS)
    batch = to_arrow(columns, timestamps=timestamps)
    assert set(batch.schema.names) == {"offset", "timestamp", "timestamp_type", "key", "value", "headers"}
    for name in batch.schema.names:
        assert to_array(columns, name, timestamps=timestamps).equals(batch.column(name))


@pytest.mark.parametrize("name", ["key", "headers", "topic"])
def test_a_column_that_was_not_decoded(name: str) -> None:
    columns = replace(columns_from_lists([b"v"]), key_offsets=None, header_offsets=None)
    assert to_array(columns, "value").to_pylist() == [b"v"]
    with pytest.raises(ValueError, match=name):
        to_array(columns, name)
