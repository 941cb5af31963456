"""docs/spark-avro.md is correct: its recipes for Iceberg and Delta run on PySpark 4.0, with the real jars."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import tidelog
from spark.schema_topic_maker import encoded, registered, write_schema_topic
from spark_jvm import plain_environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "spark-avro.md"
INTERPRETER = ROOT / ".venv-spark40" / "bin" / "python"
JARS = [*(ROOT / ".cache" / "lakes-4.0.0").glob("*.jar"), *(ROOT / ".cache").glob("spark-kafka-4.0.0/spark-avro*.jar")]
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "total", "type": "double", "default": 0.0}],
}
OLD_ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}


@pytest.mark.spark
def test_the_recipes_write_tables(tmp_path: Path) -> None:
    kafka = tmp_path / "kafka"
    write_schema_topic(kafka, [registered("orders-value", 1, 1, OLD_ORDER), registered("orders-value", 2, 2, ORDER)])
    with tidelog.open_log(kafka / "orders-0") as log:
        log.append(encoded(1, OLD_ORDER, {"id": 1}), key=b"a")
        log.append(encoded(2, ORDER, {"id": 2, "total": 2.5}), key=b"b")
        log.append(encoded(2, ORDER, {"id": 3, "total": 3.5}), key=b"a")
        log.append(None, key=b"b")
    assert len(JARS) == 4, "`make lake-jars spark-kafka-jars` fetches the jars"
    done = subprocess.run(
        [INTERPRETER, Path(__file__).with_name("avro_page_session.py"), PAGE, ",".join(map(str, JARS)), tmp_path],
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    for table in ("iceberg", "growing", "delta"):
        rows = sorted(map(json.loads, result[table]), key=lambda row: row["offset"])
        assert [(row.get("id"), row.get("total")) for row in rows] == [(1, 0.0), (2, 2.5), (3, 3.5), (None, None)]
    assert [json.loads(row)["order"] for row in result["latest"]] == [{"id": 3, "total": 3.5}]
    assert result["undecodable"] == []
