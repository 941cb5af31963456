"""A record as a row with the same columns for the command line, JSON lines and CSV.

The columns are topic, partition, offset, timestamp (ms, -1 none), timestamp_type (none, create, log_append), key, value
and headers. Key and value are left out if their format is NONE. The functions are pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidelog.inspect.record_text import BytesFormat, shown_bytes, shown_headers
from tidelog.model import Record, TimestampType, TopicPartition

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
