"""A process that does one piece of work for each line, and the driver's handle on it.

The line is the work's name and its arguments, separated by tabs. The reply is "nanoseconds TAB bytes TAB records", or
"error TAB text". Kafka's side (java/Peer.java), Spark's (spark_session.py) and ours (this module as a program) all use
this protocol. The driver lets them take turns while each stays warm, and times only the work itself. Replies go to the
file descriptor in the program's last argument, because stdout belongs to the work and is discarded.

Start the program with ``python -m benchmarks.worker DESCRIPTOR``. The work NAME is the module benchmarks.NAME, which
has ``run``. It may have ``prepare`` and ``finish``, which run before and after it and are not timed.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a run: its seconds (or another figure of its case), and its amount of work."""

    seconds: float
    bytes: int
    records: int


class WorkError(Exception):
    """A piece of work failed. The text is the worker's."""


class Worker:
    """A worker process. Leaving the context ends it."""

    def __init__(self, command: list[str]) -> None:
        answers, descriptor = os.pipe()
        self._process = subprocess.Popen(
            [*command, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            encoding="utf-8",
            pass_fds=[descriptor],
        )
        os.close(descriptor)
        self._answers = os.fdopen(answers, encoding="utf-8")

    def do(self, *words: str | Path | int) -> Done:
        """Do a piece of work in the process. Raise WorkError if it fails."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._answers.readline().rstrip("\n").split("\t")
        if len(answer) != 3:
            raise WorkError(f"{words[0]}: {' '.join(answer) or 'the worker ended'}")
        nanoseconds, size, records = map(int, answer)
        return Done(seconds=nanoseconds / 1e9, bytes=size, records=records)

    def close(self) -> None:
        """Let the process end, and kill it after a timeout."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def serve(lines: TextIO, answers: TextIO) -> None:
    """Do the work of each line."""
    for line in lines:
        name, *arguments = line.rstrip("\n").split("\t")
        work = importlib.import_module(f"benchmarks.{name}")
        if hasattr(work, "prepare"):
            work.prepare(*arguments)
        start = time.perf_counter_ns()
        try:
            size, records = work.run(*arguments)
            nanoseconds = time.perf_counter_ns() - start
            if hasattr(work, "finish"):
                work.finish(*arguments)
        except Exception as error:
            answers.write(f"error\t{type(error).__name__}: {error}\n")
            raise
        else:
            answers.write(f"{nanoseconds}\t{size}\t{records}\n")
        finally:
            answers.flush()


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[-1]), "w", encoding="utf-8") as answers:
        serve(sys.stdin, answers)
