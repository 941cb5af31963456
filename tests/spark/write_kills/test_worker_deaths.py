"""A Python worker dies, and its driver lives.

==========================  ===========================  ================================================
death                       the job                      its rows
==========================  ===========================  ================================================
a task's worker, any time   succeeds, with a repeated    are there once
                            task if necessary
the commit's worker,        fails                        are absent; the abort removes staged files
before the decision
the commit's worker, after  fails                        are there once, because the abort leaves them
the decision
==========================  ===========================  ================================================

A failed query of a stream is started again, and its rows are there once in every case.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import pytest

from spark.write_kills.after_death import require_all_or_nothing
from spark.write_kills.driver import OLDEST, Driver
from spark.write_kills.home import Home, plan_of, require_settled
from spark.write_kills.points import DECIDED, POINTS, TASKS

Deaths = tuple[tuple[str, str, str], ...]

SINKS = ("batch", "stream")
ALL: Deaths = (
    *product(SINKS, ("worker",), POINTS),
    *product(SINKS, ("commit",), POINTS[len(TASKS) :]),
)
SOME: Deaths = (("batch", "worker", "staging"), ("batch", "commit", "renaming"))
"""The deaths of a quick run. The test with Kafka has those of a stream."""


def dies(driver: Driver, home: Home, sink: str, who: str, point: str) -> None:
    rows = home.new_rows(sink)
    error = driver.run(home, sink, rows=rows, death=(who, point))
    assert (error is None) == (who == "worker"), error
    is_there = who == "worker" or point in DECIDED
    require_all_or_nothing(home, rows, is_decided=is_there)
    if not is_there:
        assert plan_of(home.logs).staged == ()
    if sink == "stream":
        assert driver.run(home, sink) is None
    if is_there or sink == "stream":
        home.expect(rows)


def goes_on(driver: Driver, home: Home, sink: str) -> None:
    rows = home.new_rows(sink)
    assert driver.run(home, sink, rows=rows) is None
    home.expect(rows)
    home.require_each_once()
    require_settled(home.logs)


@pytest.mark.parametrize(
    ("interpreter", "deaths"),
    [
        pytest.param(sys.executable, SOME, id="some"),
        pytest.param(sys.executable, ALL, id="all", marks=pytest.mark.slow),
        pytest.param(OLDEST, ALL, id="all-4.0.0", marks=pytest.mark.slow),
    ],
)
def test_each_row_once(tmp_path: Path, interpreter: str | Path, deaths: Deaths) -> None:
    with Driver(tmp_path / "report", interpreter=interpreter) as driver:
        for sink, who, point in deaths:
            home = Home(tmp_path / f"{sink}-{who}-{point}")
            dies(driver, home, sink, who, point)
            goes_on(driver, home, sink)
