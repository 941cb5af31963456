"""Durations as users write and read them. The functions are pure. Thread rule: any thread."""

from __future__ import annotations

import re

from tidelog.model import ConfigError

UNITS = (
    ("year", 365 * 86_400_000),
    ("day", 86_400_000),
    ("hour", 3_600_000),
    ("minute", 60_000),
    ("second", 1000),
)
"""Names and milliseconds, the largest unit first."""

_SUFFIXES_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"([0-9]{1,15})(d|h|m|s|ms)")


def parse_duration(text: str) -> int:
    """Return the milliseconds of ``15m``, ``90s``, ``2h``, ``1d`` or ``500ms``. Raise ConfigError for any other text,
    including a bare number."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ConfigError(f"'{text}' is not a duration: write a number followed by d, h, m, s or ms, such as 15m")
    return int(found[1]) * _SUFFIXES_MS[found[2]]


def duration_text(duration_ms: int) -> str:
    """Return the two largest units, such as ``2 hours 5 minutes``, without rounding, and with a minus if negative."""
    if duration_ms < 0:
        return f"-{duration_text(-duration_ms)}"
    parts, rest = [], duration_ms
    for name, size in UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:,} {name}{'s' * (count != 1)}")
        if len(parts) == 2 or (parts and not count):
            break
    return " ".join(parts) or f"{rest} ms"
