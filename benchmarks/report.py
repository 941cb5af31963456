"""Results as files: ``results/ROW.json`` with every single time, and the table in README.md made from all of them."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Outcome, Times, Unit
from benchmarks.worker import ROOT

RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
HEADER = "| row | work | amount | peer | peer: median (min–max) | tidelog: median (min–max) | ratio | target |"
_UNITS = {
    Unit.SECONDS: ("ms", 1e3),
    Unit.MEGABYTES: ("MB", 1.0),
    Unit.PERCENT: ("%", 1.0),
    Unit.CPU_SECONDS: ("s/GB", 1.0),
}
"""The table's symbol for each unit, and the factor of its figures."""


def machine() -> dict[str, str | int]:
    """Return the facts that figures depend on, without identification of the machine."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "([^"]+)"', java)
    return {
        "cores": len(os.sched_getaffinity(0)),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "java": found[1] if found else "?",
        "pyarrow": version("pyarrow"),
    }


def row_result(row: str, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the content of a row's file."""
    return {"row": row, "machine": machine(), "cases": [_case_result(outcome) for outcome in outcomes]}


def _case_result(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "name": case.name,
        "bytes": outcome.bytes,
        "records": outcome.records,
        "peer": None if outcome.peer is None else {"name": case.peer_name, case.unit: _rounded(outcome.peer)},
        "tidelog": {case.unit: _rounded(outcome.ours)},
        "ratio": None if outcome.ratio is None else round(outcome.ratio, 2),
        "target": case.target,
        "limit": case.limit,
        **({"floor": case.floor} if case.floor else {}),
        **({"note": outcome.note} if outcome.note else {}),
    }


def _rounded(times: Times) -> list[float]:
    return [round(seconds, 6) for seconds in times.seconds]


def write_row(row: str, result: dict[str, Any], directory: Path = RESULTS) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{row}.json").write_text(json.dumps(result, indent=2) + "\n")


def table(results: Iterable[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table, below a line about the machines."""
    results = list(results)
    machines = sorted({_machine_line(result["machine"]) for result in results})
    lines = [f"Measured on {'; '.join(machines)}.", "", HEADER, "|---|---|---|---|---|---|---|---|"]
    lines += [_table_line(result["row"], case) for result in results for case in result["cases"]]
    return "\n".join(lines)


def _machine_line(facts: dict[str, Any]) -> str:
    return (
        f"{facts['cores']} cores ({facts['architecture']}), Python {facts['python']}, pyarrow {facts['pyarrow']}, "
        f"Java {facts['java']}"
    )


def _table_line(row: str, case: dict[str, Any]) -> str:
    peer, ours = case["peer"], case["tidelog"]
    cells = [
        row,
        "; ".join(filter(None, (case["name"], case.get("note")))),
        _amount(case),
        peer["name"] if peer else "",
        _measured(peer, case) if peer else "",
        _measured(ours, case),
        f"{case['ratio']:.2f}×" if case["ratio"] and not case["limit"] else "",
        _target(case),
    ]
    return "| " + " | ".join(cells) + " |"


def _amount(case: dict[str, Any]) -> str:
    """Return bytes and records if the work counts them. A start has neither."""
    megabytes = f"{case['bytes'] / 1e6:,.0f} MB" if case["bytes"] else ""
    records = f"{case['records']:,} records" if case["records"] else ""
    return ", ".join(filter(None, (megabytes, records)))


def _measured(side: dict[str, Any], case: dict[str, Any]) -> str:
    """Return the work done in a second if the amount is known, otherwise the figures."""
    if not case["bytes"]:
        unit, values = _figures(side)
        low, middle, high = _low_middle_high(values)
        digits = 1 if high < 10 else 0
        return f"{middle:.{digits}f} {unit} ({low:.{digits}f}–{high:.{digits}f})"
    low, middle, high = _speed(side, case)
    return f"{middle:,.0f} MB/s ({low:,.0f}–{high:,.0f})"


def _speed(side: dict[str, Any], case: dict[str, Any]) -> tuple[float, float, float]:
    """Return megabytes a second: the slowest run, the median, the fastest."""
    return _low_middle_high([case["bytes"] / 1e6 / value for value in side[Unit.SECONDS]])


def _figures(side: dict[str, Any]) -> tuple[str, list[float]]:
    """Return a side's figures and their unit as the table shows them: times are milliseconds."""
    for unit, (symbol, factor) in _UNITS.items():
        if unit in side:
            return symbol, [value * factor for value in side[unit]]
    raise ValueError(f"there is no unit in {side}")


def _low_middle_high(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    half = len(ordered) // 2
    middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    return ordered[0], middle, ordered[-1]


def _target(case: dict[str, Any]) -> str:
    if case["limit"]:
        unit, values = _figures(case["tidelog"])
        _, middle, _ = _low_middle_high(values)
        return f"≤ {case['limit']:g} {unit} {_met(middle <= case['limit'])}"
    if case["target"]:
        return f"≥ {case['target']:g}× {_met(case['ratio'] >= case['target'])}"
    if case.get("floor"):
        _, middle, _ = _speed(case["tidelog"], case)
        return f"≥ {case['floor']:,g} MB/s {_met(middle >= case['floor'])}"
    return ""


def _met(met: bool) -> str:
    return "✓" if met else "✗"


def write_table(order: Iterable[str], readme: Path = README, directory: Path = RESULTS) -> str:
    """Write the table of all rows with results between the markers of the README, and return it."""
    files = [directory / f"{row}.json" for row in order]
    text = table(json.loads(file.read_text()) for file in files if file.exists())
    before, rest = readme.read_text().split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    return text
