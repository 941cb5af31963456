"""Avro by Spark's own package for PySpark 4.0: plain, and with Confluent's prefix of five bytes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import tidelog

ROOT = Path(__file__).resolve().parents[3]
INTERPRETER = ROOT / ".venv-spark40" / "bin" / "python"
JAR = ROOT / ".cache" / "spark-kafka-4.0.0" / "spark-avro_2.13-4.0.0.jar"
VALUES = [b"\x02\x02\x06foo", b"\x04\x00", b"\x00\x00\x00\x00\x07\x02\x02\x06foo", b"\x02", None]


@pytest.mark.spark
@pytest.mark.slow
def test_both_forms(tmp_path: Path) -> None:
    with tidelog.open_log(tmp_path / "kafka" / "t-0") as log:
        log.append_batch(VALUES)
    done = subprocess.run(
        [INTERPRETER, Path(__file__).with_name("avro_export.py"), JAR, tmp_path / "kafka", tmp_path / "out"],
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))},
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    foo, bare, nothing = {"n": 1, "s": "foo"}, {"n": 2, "s": None}, {"n": 0, "s": None}
    plain, confluent = map(json.loads, done.stdout.splitlines())
    assert plain == ["avro", 1, [foo, bare, nothing, None, None]]
    assert confluent == ["confluent-avro", 3, [None, None, foo, None, None]]
