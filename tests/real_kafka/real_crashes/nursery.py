"""The parent of writers: it starts them, collects their reports, and kills them at a given moment."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from real_kafka.broker import PATIENCE_S

Report = list[Any]

_MAX_LINE_BYTES = 4096


class Nursery:
    """A warm process that forks a writer for each round; a context manager. See ``writer``."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._rest = b""

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=PATIENCE_S)  # the end of its stdin ends it

    def run(self, round_: dict[str, Any], *, after: str, seconds: float) -> list[Report]:
        """Return a writer's reports. The writer is killed ``seconds`` after the report ``after``, or ends earlier."""
        self._send(json.dumps(round_))
        reports: list[Report] = []
        self._hear_until(after, reports, time.monotonic() + PATIENCE_S)
        self._hear_until("over", reports, time.monotonic() + seconds)
        self._send("end")
        self._hear_until("over", reports, time.monotonic() + PATIENCE_S)
        assert reports[-1][0] == "over", "the writer does not end"
        return reports

    def _send(self, line: str) -> None:
        data = line.encode() + b"\n"
        assert len(data) <= _MAX_LINE_BYTES, "a line that one read does not get"
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def _hear_until(self, kind: str, reports: list[Report], deadline: float) -> None:
        """Collect reports until one of ``kind``, the last report, or the deadline."""
        if reports and reports[-1][0] == "over":
            return
        for heard in self._heard(deadline):
            reports.append(heard)
            if heard[0] in (kind, "over"):
                return

    def _heard(self, deadline: float) -> Iterator[Report]:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        while True:
            line, newline, rest = self._rest.partition(b"\n")
            if newline:
                self._rest = rest
                yield json.loads(line)
            elif select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                data = os.read(fd, 1 << 20)
                assert data, "the process that starts writers is gone"
                self._rest += data
            else:
                return
