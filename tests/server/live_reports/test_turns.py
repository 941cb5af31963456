"""The bounds of a report: turns for other tasks, an end in time, and the rows of the highest ranks."""

from __future__ import annotations

import asyncio
import time

from tidelog.server.live_reports.turns import Top, Turns


def test_other_tasks_run_between_the_items_of_a_long_report() -> None:
    async def run() -> int:
        turns, between = Turns(turn_s=0.001, total_s=60), 0

        async def count() -> None:
            nonlocal between
            while True:
                between += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(count())
        async for _ in turns.each(range(200)):
            time.sleep(0.0002)
        other.cancel()
        assert turns.is_complete
        return between

    assert asyncio.run(run()) >= 5


def test_a_report_ends_when_its_time_is_over() -> None:
    async def run() -> tuple[int, bool]:
        turns, seen = Turns(turn_s=0.001, total_s=0.005), 0
        async for _ in turns.each(range(100_000)):
            seen += 1
            async for _ in turns.each(range(16)):  # a nested list has the same time
                time.sleep(0.0001)
        return seen, turns.is_complete

    seen, is_complete = asyncio.run(run())
    assert seen < 1000
    assert not is_complete


def test_the_highest_ranks_stay_and_the_first_of_equal_ones() -> None:
    top: Top[str] = Top(3)
    for rank, item in ((1, "a"), (5, "b"), (5, "c"), (2, "d"), (5, "e"), (5, "f")):
        top.add(rank, item)
    assert top.items() == ["b", "c", "e"]
    assert top.rows(lambda item: {"item": item}) == {"rows": [{"item": one} for one in "bce"], "total": 6}


def test_no_row_is_wanted() -> None:
    top: Top[str] = Top(0)
    top.add(1, "a")
    assert (top.items(), top.seen) == ([], 1)
