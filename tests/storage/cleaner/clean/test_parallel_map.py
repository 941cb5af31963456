"""Work on several items in parallel returns its results in the items' order."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from tidelog.storage.cleaner.clean.parallel_map import ParallelMap


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate two processors. With one, the caller's thread does all the work."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1}, raising=False)


def test_results_come_in_order() -> None:
    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    with ParallelMap() as threads:
        assert [*threads.results(work, range(40))] == [number * number for number in range(40)]
        assert [*threads.results(work, [])] == []


def test_few_items_need_no_thread() -> None:
    here = threading.current_thread()
    with ParallelMap() as threads:
        assert [*threads.results(lambda _item: threading.current_thread(), [1, 2])] == [here, here]
        assert threads.submit(threading.current_thread, inline=True).result() is here


def test_one_piece_of_work_runs_beside_the_items() -> None:
    may_end = threading.Event()
    with ParallelMap() as threads:
        beside = threads.submit(lambda: may_end.wait(60), inline=False)
        assert [*threads.results(lambda item: item, range(40))] == [*range(40)]
        may_end.set()
        assert beside.result()


def test_one_thread_at_a_time_takes_an_item_in_the_order_of_the_results() -> None:
    inside = threading.Lock()

    def items() -> Iterator[int]:
        for number in range(200):
            assert inside.acquire(blocking=False)
            time.sleep(0)
            inside.release()
            yield number

    with ParallelMap() as threads:
        assert [*threads.results(lambda item: item, items())] == [*range(200)]


def test_whoever_stops_early_waits_for_the_work_under_way() -> None:
    under_way = 0
    lock = threading.Lock()

    def work(number: int) -> int:
        nonlocal under_way
        with lock:
            under_way += 1
        time.sleep(0.005)
        with lock:
            under_way -= 1
        return number

    with ParallelMap() as threads:
        results = threads.results(work, range(10**9))
        assert [next(results) for _ in range(8)] == [*range(8)]
        results.close()
        assert under_way == 0


def test_few_items_are_begun_before_their_results_are_taken() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    with ParallelMap() as threads:
        for done, _ in enumerate(threads.results(lambda item: item, items())):
            assert len(taken) <= done + 5


def test_what_goes_wrong_is_raised_in_its_place() -> None:
    def work(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    with ParallelMap() as threads:
        results = threads.results(work, range(10))
        assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="five"):
            next(results)


def test_what_goes_wrong_in_the_making_of_an_item_is_raised_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield from range(7)
        raise ValueError("seven")

    with ParallelMap() as threads:
        results = threads.results(lambda item: item, items())
        assert [next(results) for _ in range(7)] == [*range(7)]
        with pytest.raises(ValueError, match="seven"):
            next(results)
