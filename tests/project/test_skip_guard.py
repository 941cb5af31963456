"""A skipped Kafka or Spark test is a failure in CI, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

MARKED = """
import pytest

pytestmark = [pytest.mark.{marker}]

def test_needs_something():
    pytest.skip("not here")
"""

MODULE = """
import pytest

pytest.importorskip("a_library_that_is_not_here")

def test_nothing():
    pass
"""


def run_pytest(directory: Path, source: str, *, ci: str) -> str:
    (directory / "test_sample.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n    kafka\n    spark\n    other\n")
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "pytest", "-p", "skip_guard", "-p", "no:cacheprovider", "-q", str(directory)]
    return subprocess.run(command, env=environment, cwd=directory, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("marker", "ci", "closing"),
    [
        ("kafka", "true", "1 failed"),
        ("spark", "1", "1 failed"),
        ("other", "true", "1 skipped"),
        ("kafka", "", "1 skipped"),
        ("kafka", "false", "1 skipped"),
    ],
)
def test_a_marked_test_may_not_skip_in_ci(tmp_path: Path, marker: str, ci: str, closing: str) -> None:
    assert closing in run_pytest(tmp_path, MARKED.format(marker=marker), ci=ci)


@pytest.mark.parametrize(("ci", "closing"), [("true", "1 error"), ("", "1 skipped")])
def test_a_module_may_not_skip_itself_in_ci(tmp_path: Path, ci: str, closing: str) -> None:
    assert closing in run_pytest(tmp_path, MODULE, ci=ci)
