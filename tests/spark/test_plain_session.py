"""Sessions that were built without ``tidelog.spark.session()``."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, manifest
from spark_jvm import plain_environment

SCRIPT = Path(__file__).with_name("plain_session.py")


@pytest.fixture
def lacking(tmp_path: Path) -> Path:
    """Make an interpreter whose executors' workers find every library except tidelog until a marker file exists."""
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "tidelog" not in path.name:
            (libraries / path.name).symlink_to(path)
    interpreter = tmp_path / "python"
    base = Path(sys.executable).resolve()
    interpreter.write_text(
        "#!/bin/sh\n"
        'test -e "$0.whole" && set -- whole "$@"\n'
        'case "$*" in\n'
        f'whole*) shift; exec "{sys.executable}" "$@" ;;\n'
        f'*pyspark.worker*) PYTHONPATH="{libraries}:$PYTHONPATH" exec "{base}" "$@" ;;\n'
        f'*) exec "{sys.executable}" "$@" ;;\n'
        "esac\n"
    )
    interpreter.chmod(0o755)
    return interpreter


@pytest.mark.spark
def test_plain_sessions_find_the_source(golden: GoldenFactory, lacking: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, golden(FLIGHTS), lacking],
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    count = sum(manifest(FLIGHTS)[f"flights-{number}"]["read_uncommitted"]["count"] for number in range(4))
    assert (result["count"], result["sql"], result["filtered"]) == (count, count, 10)
    assert "which has no module tidelog: install tidelog[spark] there" in result["lacking"]
