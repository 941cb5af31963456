"""Lists and records to columns and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from record_columns import columns_from_records
from tidelog.model import Header, Record, TimestampType
from tidelog.record.rows import columns_from_lists, iter_records
from tidelog.testing.record_strategies import records_of


@given(records=records_of())
def test_round_trip(records: list[Record]) -> None:
    read_back = list(iter_records(columns_from_records(records)))
    assert read_back == records
    assert all(type(r) is Record and type(r.timestamp_type) is TimestampType for r in read_back)
    assert all(type(header) is Header for r in read_back for header in r.headers)


def test_lists_have_defaults() -> None:
    assert list(iter_records(columns_from_lists([b"a", None], default_timestamp_ms=7))) == [
        Record(0, 7, TimestampType.CREATE, None, b"a"),
        Record(1, 7, TimestampType.CREATE, None, None),
    ]
    assert list(iter_records(columns_from_lists([]))) == []


def test_lists_in_full() -> None:
    columns = columns_from_lists(
        [bytearray(b"a"), memoryview(b"bc")],
        keys=[None, b"k"],
        timestamps=[None, 3],
        headers=[[("h", None)], ()],
        default_timestamp_ms=9,
    )
    assert list(iter_records(columns)) == [
        Record(0, 9, TimestampType.CREATE, None, b"a", (Header("h", None),)),
        Record(1, 3, TimestampType.CREATE, b"k", b"bc"),
    ]


def test_lists_of_other_lengths_or_types_are_refused() -> None:
    with pytest.raises(ValueError, match="2 keys for 1 values"):
        columns_from_lists([b"a"], keys=[b"k", b"l"])
    with pytest.raises(TypeError, match="a value is bytes or None, not str"):
        columns_from_lists(["a"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a header value is bytes or None, not int"):
        columns_from_lists([b"a"], headers=[[("h", 1)]])  # type: ignore[list-item]


def test_columns_with_fewer_header_values_than_keys_are_refused() -> None:
    columns = columns_from_lists([b"a"], headers=[[("h", b"1"), ("i", b"2")]])
    assert columns.header_value_offsets is not None
    with pytest.raises(ValueError, match=r"rows \[0:2\] of 1"):
        list(iter_records(replace(columns, header_value_offsets=columns.header_value_offsets[:-1])))
