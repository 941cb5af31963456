"""The cleaner's metrics over several threads, and over changes of their number."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from storage.cleaner.cleaner_home import CleanerHome
from tidelog.storage.cleaner.clean.clean_request import CleanerStats
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_metrics import cleaner_samples
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner

LAST_ROUNDS = ((0.75, 1_100, 3_000), (0.85, 1_000, 5_999), (0.65, 3_900, 0))
"""Three threads' last rounds: fill ratio of the map, cleaning time (ms), longest compaction delay of a log (ms)."""


def gauges(cleaner: object) -> dict[str, int | float]:
    samples = cleaner_samples(cleaner, [])  # type: ignore[arg-type]
    return {sample.name.name: sample.values["Value"] for sample in samples}


@pytest.fixture
def state(home: CleanerHome) -> CleanerState:
    return CleanerState(home.fs, [home.path], lambda: home.logs, clock=home.clock)


@pytest.mark.parametrize("rounds", list(itertools.permutations(LAST_ROUNDS)))
def test_the_largest_of_all_threads(state: CleanerState, rounds: tuple[tuple[float, int, int], ...]) -> None:
    threads = [
        SimpleNamespace(
            last_stats=CleanerStats(start_ms=0, end_ms=taken_ms, buffer_utilization=utilization),
            last_max_delay_ms=delay_ms,
            is_dead=False,
        )
        for utilization, taken_ms, delay_ms in rounds
    ]
    found = gauges(SimpleNamespace(threads=threads, state=state))
    assert found["max-buffer-utilization-percent"] == 85
    assert found["max-clean-time-secs"] == 3
    assert found["max-compaction-delay-secs"] == 5


def test_nothing_where_no_thread_has_compacted_yet(state: CleanerState) -> None:
    found = gauges(LogCleaner(state, CleanerSettings()))
    names = ("max-buffer-utilization-percent", "max-clean-time-secs", "max-compaction-delay-secs", "DeadThreadCount")
    assert [found[name] for name in names] == [0, 0, 0, 0]


def test_the_same_after_the_settings_changed(state: CleanerState) -> None:
    cleaner = LogCleaner(state, CleanerSettings(dedupe_buffer_bytes=1 << 20))
    cleaner.startup()
    try:
        before = gauges(cleaner)
        cleaner.reconfigure(CleanerSettings(dedupe_buffer_bytes=1 << 20, threads=2))
        assert len(cleaner.threads) == 2
        assert gauges(cleaner).keys() == before.keys()
    finally:
        cleaner.shutdown()
