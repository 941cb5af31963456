"""Work on several items at once gives its results in their order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tidelog.storage.cleaner.clean.side_by_side import SideBySide


def test_results_come_in_order() -> None:
    def work(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number * number

    with SideBySide() as threads:
        assert [*threads.results(work, range(40))] == [number * number for number in range(40)]
        assert [*threads.results(work, [])] == []


def test_one_item_needs_no_thread() -> None:
    with SideBySide() as threads:
        assert [*threads.results(lambda _item: threading.current_thread(), [1])] == [threading.current_thread()]


def test_few_items_are_begun_before_their_results_are_taken() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    with SideBySide() as threads:
        for done, _ in enumerate(threads.results(lambda item: item, items())):
            assert len(taken) <= done + 4


def test_what_goes_wrong_is_raised_in_its_place() -> None:
    def work(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    with SideBySide() as threads:
        results = threads.results(work, range(10))
        assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="five"):
            next(results)
