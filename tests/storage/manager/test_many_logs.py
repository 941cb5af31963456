"""Many logs in one process stay within the system's limits, or a message names the limit to raise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[2]
MAX_MAP_COUNT = 65_530
BATCH_BYTES = 61 + 10 * 12
"""A lower bound of the size of a batch of ten records."""


def run(directory: Path, logs: int, files: int, timeout: float) -> dict[str, dict[str, Any]]:
    """Run the program, and return its counts by step. Descriptors are counted above those at its beginning."""
    done = subprocess.run(
        [sys.executable, "-m", "storage.manager.many_logs", str(directory), str(logs), str(files)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    steps = {step["step"]: step for step in map(json.loads, done.stdout.splitlines())}
    assert steps["loaded"]["logs"] == logs
    began = steps["began"]["files"]
    # Only the lock is open: logs and indexes are opened when they are first needed.
    assert (steps["loaded"]["files"] - began, steps["loaded"]["mappings"]) == (1, 0)
    assert steps["read"]["bytes"] > 3 * logs * BATCH_BYTES
    return steps


def test_all_of_many_logs_are_read_with_few_open_files(tmp_path: Path) -> None:
    steps = run(tmp_path, 60, 80, timeout=400)
    assert steps["read"]["files"] < 80
    assert 0 < steps["read"]["mappings"] <= 80 // 4


def test_a_limit_that_is_reached_is_named(tmp_path: Path) -> None:
    appended = run(tmp_path, 60, 60, timeout=400)["appended"]
    assert 10 < appended["logs"] < 60
    assert "too many open files: it may open 60 (ulimit -n" in appended["problem"]


@pytest.mark.slow
def test_ten_thousand_logs_fit_into_the_usual_limits(tmp_path: Path) -> None:
    """Each log that is written to needs a file. Files for reading get a share of the process's limit."""
    steps = run(tmp_path, 10_000, 20_000, timeout=900)
    allowed = steps["began"]["allowed"]
    assert max(steps["read"]["mappings"], steps["appended"]["mappings"]) < MAX_MAP_COUNT // 2
    if allowed >= 20_000:
        assert steps["appended"]["logs"] == 10_000
        assert steps["appended"]["files"] < 10_000 + allowed // 2
    else:
        assert "ulimit -n" in steps["appended"]["problem"]
