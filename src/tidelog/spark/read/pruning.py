"""The pruning of a read by a query's filters, before any data is read.

Filters on topic, partition, offset and timestamp limit the partitions, segments, positions and batches that are read.
Pruning may keep too much, but never too little: Spark evaluates the filters on the rows. The JVM reader leaves out that
step where pruning is exact: for equality of a topic or partition, and for comparisons of an offset
(``Filters.isExact``).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tidelog.model import TopicPartition

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The limits of matching records. None means no limit. Offsets are [start, end), and the timestamp is the least in
    ms."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    min_timestamp_ms: int | None = None

    def keeps(self, partition: TopicPartition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def narrowed(self, filters: Iterable[Any]) -> Pruning:
        """Return this pruning narrowed by all of ``filters`` (PySpark's ``Filter`` objects). Unknown filters narrow
        nothing."""
        result = self
        for condition in filters:
            column = ".".join(getattr(condition, "attribute", ()))
            result = result.narrowed_by(column, type(condition).__name__, getattr(condition, "value", None))
        return result

    def narrowed_by(self, column: str, kind: str, value: Any) -> Pruning:
        """Return this pruning narrowed by one filter. ``kind`` is the name of PySpark's class, and an instant is a
        ``datetime`` or a number of microseconds."""
        match column:
            case "topic" | "partition":
                return self._and_name(column, kind, value)
            case "offset":
                return self._and_offset(kind, value)
            case "timestamp":
                return self._and_timestamp(kind, value)
        return self

    def _and_name(self, column: str, kind: str, value: Any) -> Pruning:
        if kind in ("EqualTo", "EqualNullSafe"):
            wanted = frozenset((value,))
        elif kind == "In":
            wanted = frozenset(value)
        else:
            return self
        if column == "topic":
            return replace(self, topics=wanted if self.topics is None else self.topics & wanted)
        return replace(self, partitions=wanted if self.partitions is None else self.partitions & wanted)

    def _and_offset(self, kind: str, value: Any) -> Pruning:
        low, high = _half_open_range(kind, value)
        return replace(
            self,
            start_offset=_tighter(max, self.start_offset, low),
            end_offset=_tighter(min, self.end_offset, high),
        )

    def _and_timestamp(self, kind: str, value: Any) -> Pruning:
        instants = [_microseconds(part) for part in (value if kind == "In" else (value,))]
        if not instants or any(instant is None for instant in instants):
            return self
        if kind not in ("EqualTo", "EqualNullSafe", "In", "GreaterThan", "GreaterThanOrEqual"):
            return self
        # The timestamp is rounded down to the log's milliseconds: a bound may be too low, never too high.
        least_ms = min(instant for instant in instants if instant is not None) // 1000
        return replace(self, min_timestamp_ms=_tighter(max, self.min_timestamp_ms, least_ms))


def _tighter(choose: Callable[[int, int], int], current: int | None, new: int | None) -> int | None:
    if current is None or new is None:
        return new if current is None else current
    return choose(current, new)


def _half_open_range(kind: str, value: Any) -> tuple[int | None, int | None]:
    match kind:
        case "EqualTo" | "EqualNullSafe" if isinstance(value, int):
            return value, value + 1
        case "In" if value and all(isinstance(part, int) for part in value):
            return min(value), max(value) + 1
        case "GreaterThan" if isinstance(value, int):
            return value + 1, None
        case "GreaterThanOrEqual" if isinstance(value, int):
            return value, None
        case "LessThan" if isinstance(value, int):
            return None, value
        case "LessThanOrEqual" if isinstance(value, int):
            return None, value + 1
    return None, None


def _microseconds(value: Any) -> int | None:
    """Return an instant's microseconds since the epoch, or None for a local date-time, which names no instant."""
    if isinstance(value, int):
        return value
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICROSECOND
