"""A record as a reader sees it, and the limits of a read."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TimestampType(enum.IntEnum):
    """The clock that set a record's timestamp; the numbers are Kafka's (-1: format v0 has none)."""

    NONE = -1
    CREATE = 0
    LOG_APPEND = 1


class Isolation(enum.StrEnum):
    """The end of the range that a read may return (Kafka's ``FetchIsolation``)."""

    LOG_END = "log_end"
    """Followers: everything up to the log end offset."""
    READ_UNCOMMITTED = "read_uncommitted"
    """Consumers: up to the high watermark."""
    READ_COMMITTED = "read_committed"
    """Consumers: up to the last stable offset, without the records of aborted transactions."""


class Header(NamedTuple):
    key: str
    value: bytes | None


class Record(NamedTuple):
    """A record; ``timestamp`` is in ms since the epoch (-1: none)."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
