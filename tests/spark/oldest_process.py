"""A process with PySpark 4.0.0, the only release for which Spark's own Kafka source is fetched.

A test asks it line by line. Its programs are modules below tests/ whose ``main`` is ``oldest_session.answer``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from spark_jvm import plain_environment

TESTS = Path(__file__).resolve().parents[1]
INTERPRETER = TESTS.parent / ".venv-spark40" / "bin" / "python"
PATIENCE_S = 200


class SparkError(Exception):
    """A piece of work failed. The message is everything that Spark reports about it."""


class OldestSpark:
    """The handle of a process. Leaving the context ends the process."""

    def __init__(self, program: str, directory: Path) -> None:
        """Start the module ``program``. ``directory`` takes Spark's own files."""
        assert INTERPRETER.exists(), "`make spark40` makes its environment"
        environment = plain_environment()
        paths = [str(TESTS), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        answers, descriptor = os.pipe()
        self._errors = (directory / "stderr").open("w+")
        self._process = subprocess.Popen(
            [INTERPRETER, "-m", program, directory, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            cwd=directory,
            env=environment,
            pass_fds=[descriptor],
            encoding="utf-8",
        )
        os.close(descriptor)
        self._answers = os.fdopen(answers, encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._answers.close()
            self._errors.close()

    def ask(self, work: str, **arguments: Any) -> Any:
        """Return the result of a piece of work, decoded from JSON. Raise SparkError if it fails."""
        assert self._process.stdin is not None
        print(json.dumps([work, arguments]), file=self._process.stdin, flush=True)
        line = self._answers.readline()
        assert line, f"Spark has ended: {self._errors.seek(0) or self._errors.read()[-3000:]}"
        state, answer = json.loads(line)
        if state != "done":
            raise SparkError(answer)
        return answer
