"""``python -m benchmarks``: measure the requested rows, write their results, print the table.

``make bench`` runs all of them, ``make bench ROWS=scan,decode`` some.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from contextlib import closing
from pathlib import Path
from types import ModuleType

from benchmarks import report
from benchmarks.bench import Bench
from benchmarks.datasets import CACHE
from benchmarks.measure import Outcome, Unit, measure

_LOG_ROWS = ("append", "scan", "decode", "recover", "load", "compact", "dump", "verify", "spark", "audits", "startup")
_SERVER_ROWS = (
    "produce",
    "consume",
    "librdkafka",
    "records",
    "producers",
    "partitions",
    "tls",
    "start",
    "idle",
    "mirror",
    "replicate",
    "failover",
    "web",
)
ROWS = _LOG_ROWS + _SERVER_ROWS
"""Each row is a module with ``cases`` for the driver, and ``run`` (``prepare``, ``finish``) for our worker's part."""


def main() -> None:
    options = _options()
    table = ""
    with Bench(scale=options.scale) as bench:
        for row in options.rows:
            outcomes = []
            with closing(_module(row).cases(bench)) as cases:  # a failed case ends the processes of its row, too
                for case in cases:
                    started = time.monotonic()
                    outcomes.append(measure(case, runs=options.runs, warm_ups=options.warm_ups))
                    _say(row, outcomes[-1], time.monotonic() - started)
            report.write_row(row, report.row_result(row, outcomes), options.results)
            if (
                options.results == report.RESULTS
            ):  # after each row, so that a cancelled run leaves a table of its results
                table = report.write_table(ROWS)
    print(table)


def _module(row: str) -> ModuleType:
    return importlib.import_module(f"benchmarks.server.{row}" if row in _SERVER_ROWS else f"benchmarks.{row}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure tidelog beside its peers.")
    parser.add_argument("--rows", type=_rows, default=ROWS, help=f"some of {','.join(ROWS)}; default: all")
    parser.add_argument("--runs", type=int, default=5, help="runs of each side (default 5)")
    parser.add_argument("--warm-ups", type=int, default=3, help="runs before those, not counted (default 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="how much data; only the results of 1 are published")
    parser.add_argument(
        "--results", type=Path, help="where to write ROW.json; by default where they are published, with the table"
    )
    options = parser.parse_args()
    options.results = options.results or (report.RESULTS if options.scale == 1 else CACHE / "results")
    return options


def _rows(text: str) -> tuple[str, ...]:
    rows = tuple(text.split(","))
    if unknown := set(rows) - set(ROWS):
        raise argparse.ArgumentTypeError(f"unknown rows: {', '.join(sorted(unknown))}")
    return rows


def _say(row: str, outcome: Outcome, seconds: float) -> None:
    ratio = "" if outcome.ratio is None else f", {outcome.ratio:.2f}x {outcome.case.peer_name}"
    note = f"; {outcome.note}" if outcome.note else ""
    unit = outcome.case.unit
    median = f"{outcome.ours.median * 1e3:,.1f} ms" if unit is Unit.SECONDS else f"{outcome.ours.median:,.1f} {unit}"
    print(f"{row}: {outcome.case.name}: {median}{ratio}{note} [{seconds:.0f} s]", file=sys.stderr)


if __name__ == "__main__":
    main()
