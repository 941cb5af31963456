"""The demo of ``make demo`` runs and its numbers are right: without Spark here, as a whole in `make soak`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from project.tree import ROOT

DEMO = ROOT / "examples" / "flights" / "pipeline.py"
FLIGHTS = 20_000


def demo(workspace: Path, *arguments: str, program: Path = DEMO) -> str:
    """Return the output of the demo, which succeeds only if all of its checks hold."""
    command = [sys.executable, str(program), "--workspace", str(workspace), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    wide = environment | {"COLUMNS": "160"}
    done = subprocess.run(command, env=wide, capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_broker_of_the_demo_and_its_clients(tmp_path: Path) -> None:
    printed = demo(tmp_path / "demo", "--without-spark", "--without-cluster", "--pause", "0")
    assert f"✓ the group has read {FLIGHTS:,} flights" in printed
    assert f"✓ {FLIGHTS:,} flights are committed" in printed
    aborted = re.search(r"of (\d+) aborted transactions", printed)
    assert aborted
    assert printed.count("□") == int(aborted[1]) + 1, "one of them is the legend's"


@pytest.mark.slow
def test_the_cluster_of_the_demo_loses_nothing(tmp_path: Path) -> None:
    printed = demo(tmp_path / "demo", "--pause", "0", program=DEMO.with_name("failover.py"))
    assert printed.count("is killed with kill -9: it led flights-") == 2
    assert "the controller is killed with kill -9" in printed
    assert f"✓ {FLIGHTS:,} flights are acknowledged, all that were sent" in printed
    for number in (1, 2, 3):
        assert f"✓ broker {number} has lost 0 flights, and none is doubled or out of order" in printed


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_the_whole_demo(tmp_path: Path) -> None:
    printed = demo(tmp_path / "demo")
    assert "the same as from the running broker's files" in printed
    assert "micro-batches the stream has counted 10,000 arrivals" in printed
    assert "lacks nothing" in printed
    assert "✓ rows 20,000 → 21,000" in printed
    assert (tmp_path / "demo" / "delays.png").exists()
    assert (tmp_path / "demo" / "delays.parquet").exists()
