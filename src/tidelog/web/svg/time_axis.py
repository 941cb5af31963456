"""Round times for the ticks of a time axis, and their texts. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS: Final = (
    *(size * unit for unit in (1, 10, 100, _SECOND) for size in (1, 2, 5)),
    *(size * unit for unit in (10 * _SECOND, _MINUTE, 10 * _MINUTE) for size in (1, 3)),
    *(size * _HOUR for size in (1, 3, 6, 12)),
    *(size * _DAY for size in (1, 2, 7, 14, 30, 90, 365, 3650, 36_500)),
)
"""The distances of ticks in ms."""


def time_ticks(low_ms: float, high_ms: float, count: int = 6) -> list[tuple[float, str]]:
    """Return at most about ``count`` round times of a range (ms since 1970) with their texts in UTC.

    A text has as much as the distance of the ticks needs: the date, the minute, the second or the millisecond.
    """
    span = high_ms - low_ms
    if span <= 0:
        return [(low_ms, _text(low_ms, 1))]
    step = next((size for size in _STEPS if span / size <= count), _STEPS[-1])
    first = -(-int(low_ms) // step)
    found = range(first, int(high_ms) // step + 1)[: 4 * count]
    return [(number * step, _text(number * step, step)) for number in found]


def _text(time_ms: float, step: int) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(int(time_ms))
    if step >= _DAY:
        return f"{moment:%Y-%m-%d}"
    if step >= _MINUTE:
        return f"{moment:%m-%d %H:%M}"
    if step >= _SECOND:
        return f"{moment:%H:%M:%S}"
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
