"""A record as a reader sees it, and how far a reader may see."""

from __future__ import annotations

import enum
from typing import NamedTuple


class TimestampType(enum.IntEnum):
    """Who set a record's timestamp; the numbers are Kafka's (-1: format v0 has none)."""

    NONE = -1
    CREATE = 0
    LOG_APPEND = 1


class Isolation(enum.StrEnum):
    """How far a read may go (Kafka's ``FetchIsolation``)."""

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
    """One record; ``timestamp`` in milliseconds since the epoch (-1: none)."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
