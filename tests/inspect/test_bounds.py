"""The bounds of a read (offsets, times, names) as a person writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from tidelog.inspect.bounds import (
    EARLIEST,
    LATEST,
    Bound,
    BoundKind,
    ReadLimits,
    look_up,
    parse_bound,
    parse_time,
    resolve_bound,
)
from tidelog.model import ConfigError, Isolation
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView


def at(timestamp_ms: int) -> Bound:
    return Bound(BoundKind.TIMESTAMP, timestamp_ms)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("17", Bound(BoundKind.OFFSET, 17)),
        ("-10", Bound(BoundKind.OFFSET, -10)),
        ("@1700000000123", at(1_700_000_000_123)),
        ("@-5", at(-5)),
        ("2023-11-14", at(1_699_920_000_000)),
        ("2023-11-14T22:13:20", at(1_700_000_000_000)),
        ("2023-11-14T22:13:20.123Z", at(1_700_000_000_123)),
        ("2023-11-14 23:13:20+01:00", at(1_700_000_000_000)),
        ("1969-12-31T23:59:59.999", at(-1)),
    ],
)
def test_offsets_and_times(text: str, bound: Bound) -> None:
    assert parse_bound(text) == bound


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("-1", LATEST),
        ("-2", EARLIEST),
        ("-3", Bound(BoundKind.MAX_TIMESTAMP)),
        ("max-timestamp", Bound(BoundKind.MAX_TIMESTAMP)),
        ("-4", EARLIEST),
        ("earliest-local", EARLIEST),
        ("-5", Bound(BoundKind.LATEST_TIERED)),
        ("latest-tiered", Bound(BoundKind.LATEST_TIERED)),
        ("1700000000000", at(1_700_000_000_000)),
        ("2023-11-14", at(1_699_920_000_000)),
        ("latest", LATEST),
    ],
)
def test_times_as_kafkas_tool_takes_them(text: str, bound: Bound) -> None:
    assert parse_time(text) == bound


@pytest.mark.parametrize("text", ["", "-", "1.5", "tomorrow", "max-timestamp", "@", "@x", "٣", "9" * 19, "2023-13-01"])
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_bound(text)


def view(directory: Path) -> LogView:
    return LogView(LOCAL, directory)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("earliest", 777),
        ("latest", 2000),
        ("0", 777),
        ("1000", 1000),
        ("99999", 2000),
        ("-1", 1999),
        ("-99999", 777),
        ("1970-01-01", 777),
        ("2099-01-01", 2000),
    ],
)
def test_what_a_bound_is_in_a_log(golden: GoldenFactory, text: str, offset: int) -> None:
    assert resolve_bound(view(golden(SCENARIOS) / "trimmed-0"), parse_bound(text), ReadLimits()) == offset


def test_the_end_of_a_committed_read_is_the_last_stable_offset(golden: GoldenFactory) -> None:
    limits = ReadLimits(isolation=Isolation.READ_COMMITTED)
    txn = view(golden(SCENARIOS) / "txn-0")
    assert resolve_bound(txn, LATEST, limits) == 516
    assert resolve_bound(txn, parse_bound("-16"), limits) == 500


def test_a_time_is_the_first_record_as_late(golden: GoldenFactory) -> None:
    log = view(golden(FLIGHTS) / "flights-0")
    found = look_up(log, parse_time("2001-03-01"), ReadLimits())
    assert found is not None
    assert found.timestamp >= 983_404_800_000
    assert look_up(log, parse_time("2030-01-01"), ReadLimits()) is None
    assert look_up(log, LATEST, ReadLimits()) == (-1, 6066)
    assert look_up(log, parse_time("earliest-local"), ReadLimits()) == (-1, 0)
    assert look_up(log, parse_time("latest-tiered"), ReadLimits()) is None
