"""Bytes and times as text."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.inspect.record_rows import BytesFormat, RowShape, iso_time, record_row, shown_bytes, shown_headers
from tidelog.model import Header, Record, TimestampType, TopicPartition


@pytest.mark.parametrize(
    ("data", "form", "shown"),
    [
        (b"caf\xc3\xa9", "auto", "café"),
        (b"\xff\x00", "auto", "0xff00"),
        (b"", "auto", ""),
        (b"\xff", "text", "\ufffd"),
        (b"ab", "hex", "6162"),
        (b"\xff", "base64", "/w=="),
        (b'{"a": [1, null]}', "json", {"a": [1, None]}),
        (b"12", "json", 12),
        (b"{", "json", "{"),
        (b"NaN", "json", "NaN"),
        (b"[" * 100_000, "json", "[" * 100_000),
        (b"\xff", "json", "0xff"),
        (b"x", "none", None),
        *((None, form, None) for form in BytesFormat),
    ],
)
def test_bytes(data: bytes | None, form: str, shown: Any) -> None:
    assert shown_bytes(data, BytesFormat(form)) == shown


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (-1, "-1"),
        (-2, "1969-12-31T23:59:59.998Z"),
        (2**62, str(2**62)),
        (-(2**63), str(-(2**63))),
    ],
)
def test_times(timestamp: int, text: str) -> None:
    assert iso_time(timestamp) == text


def test_headers_keep_their_order_and_come_twice() -> None:
    headers = (Header("a", b"1"), Header("a", None), Header("b", b"\xff"))
    assert shown_headers(headers) == [
        {"key": "a", "value": "1"},
        {"key": "a", "value": None},
        {"key": "b", "value": "0xff"},
    ]


@pytest.mark.parametrize("key_format", list(BytesFormat))
@pytest.mark.parametrize("value_format", list(BytesFormat))
def test_a_row_has_the_columns_of_its_shape(key_format: BytesFormat, value_format: BytesFormat) -> None:
    shape = RowShape(key_format=key_format, value_format=value_format)
    record = Record(5, 7, TimestampType.CREATE, b"k", b"v")
    row = record_row(TopicPartition("t", 3), record, shape)
    assert tuple(row) == shape.columns
    assert (row["topic"], row["partition"], row["offset"], row["timestamp_type"]) == ("t", 3, 5, "create")
