"""The plan by which the workers of pytest-xdist share the test files, so that all cores have work until the end.

Three rules shorten ``make test``, which distributes its tests by file:

- One worker runs all files of ``tests/spark``, and the run begins with them. A Spark session costs many CPU seconds
  until its JVM is warm, and every worker with one of these files would start its own.
- Files that wait for other processes alternate with files that compute. Four waiting files would leave the cores idle,
  and four computing files would compete for them.
- The tests of the simulation are distributed one by one. They share nothing, and one worker with all the seeds would
  still run when the others have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark"
SEEDS = frozenset({"tests/simulation/test_seeds.py", "tests/simulation/test_faults.py"})
WAITING = ("kafka", "spark", "heavy")
"""The markers of tests that mostly wait for a JVM, or for another process of tidelog."""


class FileScheduling(LoadFileScheduling):
    """The scheduling of ``--dist loadfile``, in which the files of one Spark session belong together."""

    def _split_scope(self, nodeid: str) -> str:
        return work_unit(nodeid)


def work_unit(nodeid: str) -> str:
    """Return the name of the tests that run on the same worker: a file, the folder of Spark, or one test."""
    file = nodeid.split("::", 1)[0]
    if file in SEEDS:
        return nodeid
    return SPARK if file.startswith(f"{SPARK}/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling | None:
    """Replace the scheduling by file. Others, like the soak's, stay as they are."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give a worker its tests in the sequence of ``alternated``. A run without workers keeps pytest's sequence."""
    if not hasattr(config, "workerinput"):
        return
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(work_unit(item.nodeid), []).append(item)
    ordered = alternated(list(units), lambda unit: any(map(waits, units[unit])))
    items[:] = [item for unit in ordered for item in units[unit]]


def waits(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in WAITING)


def alternated(units: Sequence[str], waiting: Callable[[str], bool]) -> list[str]:
    """Spread the waiting units evenly between the others. Spark's unit is the first, because it is the longest."""
    places: list[tuple[float, str]] = []
    for group in ([unit for unit in units if waiting(unit)], [unit for unit in units if not waiting(unit)]):
        places += [(index / len(group), unit) for index, unit in enumerate(group)]
    return sorted([unit for _, unit in sorted(places)], key=lambda unit: unit != SPARK)
