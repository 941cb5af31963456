"""A driver in its own process, ``driver_main``: it takes jobs and returns their errors until it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spark.write_kills.home import Home
from spark.write_kills.points import give_order

PATIENCE_S = 200
PROGRAM = Path(__file__).with_name("driver_main.py")
OLDEST = Path(__file__).parents[3] / ".venv-spark40" / "bin" / "python"


class DriverKilledError(Exception):
    """The driver died during the job, as ordered."""


class Driver:
    """A driver's process. ``interpreter`` has PySpark; ``report`` receives its stderr."""

    def __init__(self, report: Path, *, interpreter: str | Path = sys.executable, master: str = "local[2,4]") -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        environment["PYTHONPATH"] = os.pathsep.join([str(PROGRAM.parents[2]), environment.get("PYTHONPATH", "")])
        self._report = report
        with report.open("ab") as stderr:
            self._process = subprocess.Popen(
                [interpreter, PROGRAM, master],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                text=True,
            )

    def run(self, home: Home, sink: str, *, rows: range = range(0), death: tuple[str, str] | None = None) -> str | None:
        """Run a job (see ``driver_main``) and return its error. Raise DriverKilledError if the driver died.

        ``death`` names the process that dies, and one of the ``points``.
        """
        order = home.path / "order"
        if death is not None:
            give_order(order, *death, driver_group=self._process.pid)
        error = self._ask(
            {"home": str(home.path), "logs": str(home.logs), "sink": sink, "rows": (rows.start, rows.stop)}
        )
        assert not order.exists(), f"nobody came by: {error}"
        return error

    def close(self) -> None:
        """Let the process end by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_S) == 0, self._report.read_text()[-4000:]

    def _ask(self, job: dict[str, Any]) -> str | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith('{"error": '):
                error: str | None = json.loads(line)["error"]
                return error
        if self._process.wait(PATIENCE_S) == -signal.SIGKILL:
            raise DriverKilledError
        raise AssertionError(self._report.read_text()[-4000:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._process.poll() is None:
            self.close()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
