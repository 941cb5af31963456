"""Durations parsed from text and written as text."""

from __future__ import annotations

import pytest

from tidelog.inspect.durations import duration_text, parse_duration
from tidelog.model import ConfigError


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("0ms", 0), ("500ms", 500), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000)],
)
def test_read(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "15", "m", "-1s", "1.5h", "1 h", "1w", "1h30m", "٣s", "9" * 16 + "s"])
def test_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 second"),
        (61_999, "1 minute 1 second"),
        (3_600_000, "1 hour"),
        (3_601_000, "1 hour"),
        (93_600_000, "1 day 2 hours"),
        (10**12, "31 years 259 days"),
        (-90_000, "-1 minute 30 seconds"),
    ],
)
def test_written(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text
