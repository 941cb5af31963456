"""Progress: totals, the remaining time, and one call of a listener at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tidelog.runtime.progress import Progress, ProgressCounter, one_at_a_time
from tidelog.testing import ManualClock


def test_a_counter_reports_logs_bytes_and_time() -> None:
    clock = ManualClock(1_000_000)
    seen: list[Progress] = []
    counter = ProgressCounter(2, 100, seen.append, clock=clock)
    clock.sleep_ms(500)
    counter.add(25)
    counter.add(75, logs=1)
    first, second = seen
    assert (first.logs_done, first.bytes_done, first.elapsed_ms, first.left_ms) == (0, 25, 500, 1500)
    assert (second.logs_done, second.logs_total, second.bytes_done, second.bytes_total) == (1, 2, 100, 100)


def test_without_bytes_the_logs_tell_the_remaining_time() -> None:
    assert Progress(logs_done=1, logs_total=4, bytes_done=0, bytes_total=0, elapsed_ms=10).left_ms == 30
    assert Progress(logs_done=0, logs_total=4, bytes_done=0, bytes_total=0, elapsed_ms=10).left_ms is None


def test_one_call_at_a_time() -> None:
    inside = threading.Lock()
    total = 0

    def advance(count: int) -> None:
        nonlocal total
        assert inside.acquire(blocking=False)
        total += count
        time.sleep(0.001)
        inside.release()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(one_at_a_time(advance), [1] * 20)) == [None] * 20
    assert total == 20
