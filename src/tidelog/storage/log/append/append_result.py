"""The result of an append, as a value. Source: Kafka's ``LogAppendInfo``."""

from __future__ import annotations

from typing import NamedTuple, Self

from tidelog.kernel import BatchTable
from tidelog.storage.log.append.append_validation import Validated
from tidelog.storage.log.append.record_conversion import NO_CONVERSION, ConversionStats
from tidelog.storage.producer import CachedBatch


class AppendResult(NamedTuple):
    """Offsets of the first and the last record. An empty append has ``last_offset`` one below ``first_offset``.

    A duplicate has the offsets of the original.
    """

    first_offset: int
    last_offset: int
    log_start_offset: int
    max_timestamp: int = -1
    """Largest timestamp in ms, or -1 without one."""
    log_append_time: int = -1
    """Time in ms if the log sets the timestamps, else -1."""
    is_duplicate: bool = False
    stats: ConversionStats = NO_CONVERSION

    @property
    def has_grown(self) -> bool:
        """True if the append made the log longer: it was neither empty nor a duplicate."""
        return self.last_offset >= self.first_offset and not self.is_duplicate

    @classmethod
    def nothing(cls, log_end: int, log_start: int) -> Self:
        return cls(first_offset=log_end, last_offset=log_end - 1, log_start_offset=log_start)

    @classmethod
    def of_duplicate(cls, first_time: CachedBatch, log_start: int) -> Self:
        return cls(
            first_offset=first_time.first_offset,
            last_offset=first_time.last_offset,
            log_start_offset=log_start,
            log_append_time=first_time.timestamp,
            is_duplicate=True,
        )

    @classmethod
    def of_leader(cls, validated: Validated, log_start: int) -> Self:
        return cls(
            first_offset=validated.first_offset,
            last_offset=validated.last_offset,
            log_start_offset=log_start,
            max_timestamp=validated.max_timestamp,
            log_append_time=validated.log_append_time,
            stats=validated.stats,
        )

    @classmethod
    def of_follower(cls, table: BatchTable, log_start: int) -> Self:
        summary = table.summary
        return cls(
            first_offset=summary.first_offset,
            last_offset=summary.last_offset,
            log_start_offset=log_start,
            max_timestamp=int(table.max_timestamp.max()),
        )

    @property
    def offsets(self) -> range:
        return range(self.first_offset, self.last_offset + 1)
