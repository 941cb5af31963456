"""All tests of real Spark once more, on the oldest PySpark that is supported, in its own environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INTERPRETER = ROOT / ".venv-spark40" / "bin" / "python"
VERSION = "4.0.0"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_spark_test_passes_there() -> None:
    assert INTERPRETER.exists(), "`make spark40` makes its environment"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTEST"))
    }
    version = subprocess.run(
        [INTERPRETER, "-c", "import pyspark; print(pyspark.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.strip() == VERSION
    command = [INTERPRETER, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "spark and not slow", "tests/spark"]
    done = subprocess.run(
        [*command, f"--ignore={Path(__file__).relative_to(ROOT)}", "--ignore=tests/spark/clusters"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
