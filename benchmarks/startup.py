"""Row startup: a new process that imports tidelog, and one process that prints the command's help; 20 runs each.

The peer is the interpreter that does nothing. The difference is tidelog's share.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.measure import Case
from benchmarks.worker import Done

RUNS = 20


def cases(bench: Bench) -> Iterator[Case]:
    nothing = _process([sys.executable, "-c", "pass"])
    for name, command, limit_ms in (
        ("import tidelog", [sys.executable, "-c", "import tidelog"], 60),
        ("tidelog --help", [str(Path(sys.executable).with_name("tidelog")), "--help"], 200),
    ):
        yield Case(name=name, ours=_process(command), peer=nothing, peer_name="python alone", limit=limit_ms, runs=RUNS)


def _process(command: list[str]) -> Callable[[], Done]:
    def run() -> Done:
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return Done(seconds=time.perf_counter() - start, bytes=0, records=0)

    return run
