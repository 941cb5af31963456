"""Spark as a client of a broker: a process with PySpark 4.0.0, since its Kafka source is fetched for that release."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from server.harness import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
INTERPRETER = ROOT / ".venv-spark40" / "bin" / "python"
PROGRAM = Path(__file__).with_name("session.py")


class Row(NamedTuple):
    """A record as Spark has it; ``timestamp`` in ms."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[list[str]] | None


class SparkClient:
    """The handle of one process; leaving the context ends it. AssertionError, with Spark's words, where work fails."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        """``directory``: for what Spark leaves."""
        assert INTERPRETER.exists(), "`make spark40` makes its environment"
        self.checkpoints = directory / "checkpoints"
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        answers, descriptor = os.pipe()
        self._errors = (directory / "stderr").open("w+")
        self._process = subprocess.Popen(
            [INTERPRETER, PROGRAM, directory, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            cwd=directory,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))},
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

    def write(self, rows: list[tuple[Any, ...]], **options: str) -> None:
        """``rows``: topic, partition, key, value, headers."""
        self._do("write", rows=rows, options=self._servers | options)

    def read(self, topic: str, **options: str) -> list[Row]:
        """``options``: of the source, with ``_`` for ``.``."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        return [Row(*row) for row in self._do("read", options=self._servers | {"subscribe": topic} | given)]

    def start_stream(self, topic: str, to: str, **options: str) -> None:
        """From topic to topic; its checkpoint is that of the pair. ``options``: of the source."""
        source = self._servers | {"subscribe": topic, "startingOffsets": "earliest"} | options
        checkpoint = str(self.checkpoints / f"{topic}-{to}")
        self._do("start", source=source, sink=self._servers | {"topic": to}, checkpoint=checkpoint)

    def work_off(self) -> int:
        """As Session.work_off says."""
        return int(self._do("work_off"))

    def wait_for_a_batch(self) -> None:
        """Until the stream has carried one over."""
        self._do("wait_for_a_batch")

    def stop_stream(self) -> None:
        self._do("stop")

    def _do(self, name: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        print(json.dumps([name, arguments]), file=self._process.stdin, flush=True)
        line = self._answers.readline()
        assert line, f"Spark has ended: {self._errors.seek(0) or self._errors.read()[-3000:]}"
        state, answer = json.loads(line)
        assert state == "done", answer
        return answer
