"""The driver is killed with its processes. The next owner of the directory completes a batch or drops all of it.

===========  ======================================  ============================================
death        the rows of a batch                     the rows of a stream that is restarted from
                                                     its checkpoint
===========  ======================================  ============================================
not decided  are absent; staged files stay until a   are there once; the next commit removes
             recovery                                the files that were staged before
decided      are there once                          the same; a repeated request is a no-op
===========  ======================================  ============================================

Each driver continues after the one before it, and dies at the next point.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Self

import pytest

from cli.runner import run
from spark.write_kills.after_death import recover, require_all_or_nothing
from spark.write_kills.driver import OLDEST, Driver, DriverKilledError
from spark.write_kills.home import Home, require_settled
from spark.write_kills.points import DECIDED, POINTS

DEATHS = tuple(product(("batch", "stream"), POINTS))


@dataclass(frozen=True, slots=True)
class Death:
    """A death of a driver. ``lost`` are the rows that it had to write."""

    home: Home
    sink: str
    point: str
    lost: range

    @classmethod
    def of(cls, driver: Driver, home: Home, sink: str, point: str, who: str = "driver") -> Self:
        rows = home.new_rows(sink)
        with pytest.raises(DriverKilledError):
            driver.run(home, sink, rows=rows, death=(who, point))
        return cls(home, sink, point, rows)

    @property
    def is_decided(self) -> bool:
        return self.point in DECIDED

    def require_foretold(self) -> None:
        """Check the plan that `tidelog recover` prints."""
        told = run("recover", self.home.logs).output
        assert ("to complete:" in told) == (self.is_decided and self.point != "committed")
        assert ("Staged files without a commit, to remove: " in told) != self.is_decided

    def taken_up(self, driver: Driver) -> None:
        """Let the next driver write the lost rows, then more."""
        if self.sink == "stream":
            assert driver.run(self.home, self.sink) is None
        elif not self.is_decided:
            recover(self.home.logs)
        if self.sink == "stream" or self.is_decided:
            self.home.expect(self.lost)
        rows = self.home.new_rows(self.sink)
        assert driver.run(self.home, self.sink, rows=rows) is None
        self.home.expect(rows)
        self.home.require_each_once()
        require_settled(self.home.logs)


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", [sys.executable, OLDEST], ids=["newest", "4.0.0"])
def test_each_row_once(tmp_path: Path, interpreter: str | Path) -> None:
    dead: list[Death] = []
    for sink, point in DEATHS:
        with Driver(tmp_path / "report", interpreter=interpreter) as driver:
            for death in dead[-1:]:
                death.taken_up(driver)
            dead.append(Death.of(driver, Home(tmp_path / f"{sink}-{point}"), sink, point))
        dead[-1].require_foretold()
        require_all_or_nothing(dead[-1].home, dead[-1].lost, is_decided=dead[-1].is_decided)
    with Driver(tmp_path / "report", interpreter=interpreter) as driver:
        dead[-1].taken_up(driver)


@pytest.mark.slow
@pytest.mark.parametrize("sink", ["batch", "stream"])
def test_a_commit_outlives_its_driver(tmp_path: Path, sink: str) -> None:
    """The committing process is not the driver: it may still run when the next driver starts, and complete or not."""
    with Driver(tmp_path / "report") as driver:
        death = Death.of(driver, Home(tmp_path / "home"), sink, "renaming", who="driver alone")
    with Driver(tmp_path / "report") as driver:
        death.taken_up(driver)
