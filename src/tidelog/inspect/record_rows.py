"""Records as rows for the command line, JSON lines and CSV, and their keys, values, headers and times as text.

The columns are topic, partition, offset, timestamp (ms, -1 none), timestamp_type (none, create, log_append), key, value
and headers. Key and value are left out if their format is NONE. The functions are pure. Thread rule: any thread.
"""

from __future__ import annotations

import enum
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidelog.model import Header, Record, TimestampType, TopicPartition
from tidelog.record.internal_records.text import java_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BytesFormat(enum.StrEnum):
    """The formats of bytes. Null stays null in all of them.

    AUTO is text for UTF-8, else hex with the prefix ``0x``. TEXT replaces invalid UTF-8 by U+FFFD. JSON is the parsed
    value, or AUTO if the bytes are not JSON. NONE leaves the bytes out.
    """

    AUTO = "auto"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"
    NONE = "none"


def shown_bytes(data: bytes | None, form: BytesFormat) -> Any:
    """Return a JSON value for the bytes."""
    if data is None or form is BytesFormat.NONE:
        return None
    match form:
        case BytesFormat.TEXT:
            return java_text(data)
        case BytesFormat.HEX:
            return data.hex()
        case BytesFormat.BASE64:
            return b64encode(data).decode()
        case BytesFormat.JSON:
            try:
                return json.loads(data, parse_constant=_refuse)
            except (ValueError, RecursionError):
                pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def shown_headers(headers: Sequence[Header]) -> list[dict[str, Any]]:
    """Return the headers as a list, since header keys may repeat and their order counts."""
    return [{"key": header.key, "value": shown_bytes(header.value, BytesFormat.AUTO)} for header in headers]


def iso_time(timestamp_ms: int) -> str:
    """Format a time like ``2001-01-01T08:15:00.000Z``. Return the number itself if it is -1 or beyond the calendar."""
    if timestamp_ms == -1:
        return "-1"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_TYPE_NAMES = {member: member.name.lower() for member in TimestampType}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowShape:
    """The formats of keys and values."""

    key_format: BytesFormat = BytesFormat.AUTO
    value_format: BytesFormat = BytesFormat.AUTO

    @property
    def columns(self) -> tuple[str, ...]:
        names = ["topic", "partition", "offset", "timestamp", "timestamp_type"]
        names += ["key"] * (self.key_format is not BytesFormat.NONE)
        names += ["value"] * (self.value_format is not BytesFormat.NONE)
        return (*names, "headers")


PLAIN_ROWS = RowShape()


def record_row(partition: TopicPartition, record: Record, shape: RowShape) -> dict[str, Any]:
    """Return JSON values by column name, ordered like ``shape.columns``."""
    row: dict[str, Any] = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _TYPE_NAMES[record.timestamp_type],
    }
    if shape.key_format is not BytesFormat.NONE:
        row["key"] = shown_bytes(record.key, shape.key_format)
    if shape.value_format is not BytesFormat.NONE:
        row["value"] = shown_bytes(record.value, shape.value_format)
    row["headers"] = shown_headers(record.headers)
    return row
