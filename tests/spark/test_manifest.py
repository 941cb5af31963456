"""Every manifest entry of the reference directories, read through real Spark: the newest PySpark and the oldest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SETS, manifest

TESTS = Path(__file__).resolve().parents[1]
OLDEST = TESTS.parent / ".venv-spark40" / "bin" / "python"


def run(interpreter: str, jobs: list[tuple[Path, dict[str, list[str]]]]) -> dict[str, Any]:
    argument = json.dumps([[str(root), partitions] for root, partitions in jobs])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [interpreter, TESTS / "spark" / "manifest_from_spark.py", argument],
        env=environment | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.spark
@pytest.mark.parametrize(("interpreter", "version"), [(sys.executable, "4."), (str(OLDEST), "4.0.0")])
def test_every_entry_of_every_set(golden: GoldenFactory, interpreter: str, version: str) -> None:
    roots = [
        (set_name, golden(set_name, kind))
        for set_name in SETS
        for kind in (("clean", "unclean") if set_name in KRAFT_SETS else ("clean",))
    ]
    jobs = [
        (root, {partition: list(levels) for partition, levels in manifest(set_name).items()})
        for set_name, root in roots
    ]
    found = run(interpreter, jobs)
    assert found["version"].startswith(version)
    for set_name, root in roots:
        assert found[str(root)] == manifest(set_name)
