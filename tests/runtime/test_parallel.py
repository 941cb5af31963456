"""The same work for many items in threads: the order of results, errors, interrupts, threads of a group."""

from __future__ import annotations

import threading
import time

import pytest

from tidelog.runtime.parallel import ThreadGroup, run_groups, run_parallel


def test_results_have_the_order_of_the_items() -> None:
    def work(number: int) -> int:
        time.sleep(0.01 * (5 - number))
        return number * number

    assert run_parallel(work, range(5), name="t", threads=5) == [0, 1, 4, 9, 16]


def test_the_first_error_in_the_order_of_the_items_is_raised_after_all_calls_have_ended() -> None:
    ended = []

    def work(number: int) -> None:
        if number == 1:
            time.sleep(0.05)
        ended.append(number)
        if number:
            raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item 1"):
        run_parallel(work, range(3), name="t", threads=3)
    assert sorted(ended) == [0, 1, 2]


def test_an_error_stops_the_running_calls_and_those_that_wait() -> None:
    stopped = threading.Event()
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("damaged")
        assert stopped.wait(60)

    with pytest.raises(ValueError, match="damaged"):
        run_parallel(work, range(100), name="t", threads=2, stop=stopped.set)
    assert len(begun) < 100


def test_later_calls_do_not_hide_the_error_of_an_earlier_item() -> None:
    """Item 2 fails at once. Item 0 is still running, and the run waits for its error."""
    failed, stopped = threading.Event(), threading.Event()

    def work(number: int) -> None:
        if number == 2:
            failed.set()
            raise ValueError("item 2")
        if number == 0:
            assert failed.wait(60)
            time.sleep(0.05)
            assert not stopped.is_set()
            raise ValueError("item 0")

    with pytest.raises(ValueError, match="item 0"):
        run_parallel(work, range(3), name="t", threads=2, stop=stopped.set)


def test_no_items_have_no_results() -> None:
    assert run_parallel(str, [], name="t") == []
    assert run_groups(str, []) == []
    assert run_groups(str, [ThreadGroup("first", 2, []), ThreadGroup("second", 2, [7])]) == ["7"]


def test_groups_have_threads_of_their_own() -> None:
    names: dict[int, set[str]] = {0: set(), 1: set()}
    together = threading.Barrier(4, timeout=60)

    def work(group: int) -> int:
        together.wait()
        names[group].add(threading.current_thread().name)
        return group

    groups = [ThreadGroup("first", 1, [0]), ThreadGroup("second", 3, [1, 1, 1])]
    assert run_groups(work, groups) == [0, 1, 1, 1]
    assert names == {0: {"first_0"}, 1: {"second_0", "second_1", "second_2"}}
