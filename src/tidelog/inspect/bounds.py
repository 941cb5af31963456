"""The start or end of a read as users write it, and its translation to an offset of a partition.

=====================  ============================================================================
text                   offset
=====================  ============================================================================
``earliest``           the log start
``latest``             the end of the read (see ``LogView``, which knows isolation and ``until``)
``1234``               1234, clamped to [log start, log end]
``-10``                ten offsets before the end of the read
``@1700000000000``     the first record at or after that time (ms since 1970), else the end
``2024-05-01``,        the same; a time without a zone is UTC
``2024-05-01T10:30Z``
``max-timestamp``      (lookups only) the first record with the largest timestamp
``earliest-local``     (lookups only) the log start: the whole log is local
``latest-tiered``      (lookups only) none: nothing is tiered
=====================  ============================================================================

``read_end`` describes the end of a read in a sentence. The module only reads. Source of the words: Kafka's
``GetOffsetShell``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidelog.model import ConfigError, Isolation
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.time_lookup import TimestampOffset

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONG = 2**63


class BoundKind(enum.StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    MAX_TIMESTAMP = "max-timestamp"
    LATEST_TIERED = "latest-tiered"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Bound:
    """``number`` is an offset or a time in ms, depending on ``kind``. A negative offset counts from the end."""

    kind: BoundKind
    number: int = 0


EARLIEST = Bound(BoundKind.EARLIEST)
LATEST = Bound(BoundKind.LATEST)
_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_TIMES = _WORDS | {
    "max-timestamp": Bound(BoundKind.MAX_TIMESTAMP),
    "earliest-local": EARLIEST,
    "latest-tiered": Bound(BoundKind.LATEST_TIERED),
}
_KAFKA_TIMES = {
    -1: LATEST,
    -2: EARLIEST,
    -3: _TIMES["max-timestamp"],
    -4: _TIMES["earliest-local"],
    -5: _TIMES["latest-tiered"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The isolation and ``until`` bound that limit a read."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    until: Until | None = None


USUAL_LIMITS = ReadLimits()


def parse_bound(text: str) -> Bound:
    """Parse an offset or a time as in the module's table. Raise ConfigError for any other text."""
    number = _integer(text)
    if number is not None:
        return Bound(BoundKind.OFFSET, number)
    return _WORDS.get(text) or _time(text)


def parse_time(text: str) -> Bound:
    """Parse a time for a lookup. A number is ms since 1970, or a Kafka constant (-1 latest to -5 latest-tiered)."""
    number = _integer(text)
    if number is not None:
        return _KAFKA_TIMES.get(number) or Bound(BoundKind.TIMESTAMP, number)
    return _TIMES.get(text) or _time(text)


def resolve_bound(view: LogView, bound: Bound, limits: ReadLimits) -> int:
    """Return the bound's offset, clamped to [log start, log end]."""
    end = view.limit(limits.isolation, limits.until)
    match bound.kind:
        case BoundKind.EARLIEST:
            offset = view.log_start
        case BoundKind.OFFSET:
            offset = bound.number if bound.number >= 0 else end + bound.number
        case BoundKind.LATEST:
            offset = end
        case _:
            found = look_up(view, bound, limits)
            offset = end if found is None else found.offset
    return max(view.log_start, min(view.log_end, offset))


def look_up(view: LogView, bound: Bound, limits: ReadLimits) -> TimestampOffset | None:
    """Return the record at a bound, or None if there is none. A timestamp of -1 means that the offset comes from the
    bound itself and not from a record."""
    match bound.kind:
        case BoundKind.TIMESTAMP:
            return view.offset_for_timestamp(bound.number, isolation=limits.isolation, until=limits.until)
        case BoundKind.MAX_TIMESTAMP:
            return view.latest_timestamp(isolation=limits.isolation, until=limits.until)
        case BoundKind.LATEST_TIERED:
            return None
    return TimestampOffset(-1, resolve_bound(view, bound, limits))


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    if not -_LONG <= number < _LONG:
        raise ConfigError(f"'{text}' is not a 64-bit number")
    return number


def _time(text: str) -> Bound:
    if text.startswith("@") and (number := _integer(text[1:])) is not None:
        return Bound(BoundKind.TIMESTAMP, number)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        known = "a date and time (2024-05-01, 2024-05-01T10:30:00Z), @MS since 1970, earliest or latest"
        raise ConfigError(f"'{text}' is neither a number nor {known}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Bound(BoundKind.TIMESTAMP, (moment - _EPOCH) // _MILLISECOND)


_CONDITIONS = {
    DirectoryCondition.CLEAN: "its last shutdown was clean",
    DirectoryCondition.UNCLEAN: "its last shutdown was unclean",
}


def read_end(
    state: DirectoryState, isolation: Isolation = Isolation.READ_UNCOMMITTED, until: Until | None = None
) -> str:
    """Return the sentence, such as ``/data: read up to the high watermark in its checkpoint (process 7 holds it)``."""
    if state.condition is DirectoryCondition.HELD:
        why = f"process {state.holder} holds it"
    else:
        why = f"no process holds it, {_CONDITIONS[state.condition]}"
    if until is None:
        until = Until.HIGH_WATERMARK if state.condition is DirectoryCondition.HELD else Until.LOG_END
    end = {
        Until.LOG_END: "the last valid batch",
        Until.HIGH_WATERMARK: "the high watermark in its checkpoint",
        Until.CHECKPOINT: "the recovery point in its checkpoint",
    }[until]
    if isolation is Isolation.READ_COMMITTED:
        end = f"the last stable offset below {end}, without aborted records"
    return f"{state.path}: read up to {end} ({why})"
