"""The JVM reader reads addresses through the file systems of Hadoop: their rows, their errors, and S3 in a session.

Without Spark, Hadoop's local file system has directories that real brokers wrote. In the session there is Hadoop's S3A
with a service of this machine.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, unpack
from s3_server import put, s3_server
from spark.in_process import reader_of, rows, splits_of
from spark.jvm.row_printer import raw_rows, task_rows
from spark_jvm import plain_environment
from tidelog.model import CorruptRecordError, FileMissingError
from tidelog.spark.jvm.read_plan import tasks_json
from tidelog.spark.rows.reader import LogReader

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
INTERPRETER = ROOT / ".venv-spark40" / "bin" / "python"
S3A_JARS = ROOT / ".cache" / "s3a-3.4.1"


def rows_by_address(reader: LogReader) -> Iterator[dict[str, Any]]:
    """Yield the rows of a read whose tasks name their directories as ``file://``."""
    for task in tasks_json(splits_of(reader)):
        for piece in task["pieces"]:
            piece["directory"] = f"file://{piece['directory']}"
        yield from task_rows(reader, task)


@pytest.mark.parametrize("split_bytes", [5000, 10**9])
def test_rows_are_those_of_the_disk(golden: GoldenFactory, split_bytes: int) -> None:
    reader = reader_of(golden(FLIGHTS), subscribePattern=".*", splitBytes=split_bytes)
    found = list(rows_by_address(reader))
    assert found
    assert found == list(raw_rows(reader, splits_of(reader)))


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_missing_segment(tmp_path: Path, fails: str) -> None:
    """An object that disappeared is an error, as in a directory without a broker."""
    directory = unpack(FLIGHTS, "clean", tmp_path / "flights")
    reader = reader_of(directory, subscribe="flights", failOnDataLoss=fails)
    tasks = tasks_json(splits_of(reader))
    piece = tasks[0]["pieces"][0]
    name = piece["segments"][0]["file"]
    path = Path(piece["directory"]) / name
    piece["directory"] = f"file://{piece['directory']}"
    path.unlink()
    with pytest.raises(FileMissingError, match=rf"cannot open: no such file or directory \(file file:///.*/{name}"):
        list(task_rows(reader, tasks[0]))


def test_damage_is_named_by_its_address(tmp_path: Path) -> None:
    directory = unpack(FLIGHTS, "clean", tmp_path / "flights")
    reader = reader_of(directory, subscribe="flights")
    tasks = tasks_json(splits_of(reader))
    piece = tasks[0]["pieces"][0]
    path = Path(piece["directory"]) / piece["segments"][0]["file"]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    piece["directory"] = f"file://{piece['directory']}"
    with pytest.raises(CorruptRecordError, match=r"the CRC of a batch does not match .*file file:///"):
        list(task_rows(reader, tasks[0]))


def test_s3_in_a_session(tmp_path: Path) -> None:
    """A session with S3A reads by the JVM; any other reads by Python. The rows are the same."""
    jars = sorted(S3A_JARS.glob("*.jar"))
    assert jars, "`make s3a-jars` fetches them"
    directory = unpack(FLIGHTS, "clean", tmp_path / "flights")
    with s3_server() as s3:
        address = put(directory, "broker-1", s3)
        found = {}
        for name, class_path in {"s3a": ":".join(map(str, jars)), "python": ""}.items():
            done = subprocess.run(
                [INTERPRETER, Path(__file__).with_name("s3_session.py"), address, class_path],
                env=plain_environment() | s3,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr[-4000:]
            found[name] = json.loads(done.stdout.splitlines()[-1])
    expected = rows(directory, subscribe="flights")
    offsets = [len(expected), sum(row["offset"] for row in expected)]
    assert found["s3a"] == {"isJvm": True, "offsets": offsets, "streamed": len(expected), "error": ""}
    assert found["python"]["offsets"] == offsets
    assert not found["python"]["isJvm"]
    sentence = f"only the Python reader reads {address} (the session has no file system of Hadoop for it: "
    assert sentence in found["python"]["error"]
