"""``tidelog dump``: the command prints the text of kafka-dump-log, and JSON for every kind of file."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS


@pytest.mark.parametrize(
    ("name", "switches"),
    [
        ("plain-0", ["--deep-iteration", "--print-data-log"]),
        ("txn-0", ["--deep-iteration", "--print-data-log"]),
        ("__transaction_state-1", ["--deep-iteration", "--print-data-log", "--transaction-log-decoder"]),
        ("__consumer_offsets-1", ["--deep-iteration", "--print-data-log", "--offsets-decoder"]),
        ("__cluster_metadata-0", ["--deep-iteration", "--print-data-log", "--cluster-metadata-decoder"]),
    ],
)
def test_kafkas_own_text(golden: GoldenFactory, name: str, switches: list[str]) -> None:
    set_name = FLIGHTS if name.startswith("__consumer") else SCENARIOS
    expected = (golden(set_name, "dump-clean") / f"{name}.txt").read_bytes()
    dumped = [line.split(b" ", 1)[1].decode() for line in expected.splitlines() if line.startswith(b"Dumping ")]
    # Kafka's run had absolute paths on its own machine. Here the partition's directory is the working directory.
    files = [Path(path).name for path in dumped]
    command = [sys.executable, "-m", "tidelog", "dump", "--kafka-format", "--kafka-release", "4.1", *switches]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [*command, "--files", ",".join(files)], cwd=golden(set_name) / name, capture_output=True, env=environment
    )
    assert done.stderr == b""
    shortened = expected
    for path, file in zip(dumped, files, strict=True):
        shortened = shortened.replace(path.encode(), file.encode())
    assert done.stdout == shortened
    assert done.returncode == 0


@pytest.mark.parametrize(("set_name", "kind"), [(FLIGHTS, "clean"), (SCENARIOS, "unclean"), (FORMATS, "clean")])
def test_every_file_of_a_directory_is_json(golden: GoldenFactory, set_name: str, kind: str) -> None:
    directory = golden(set_name, kind)
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != ".lock"]
    lines = run("dump", *files).stdout.splitlines()
    found = [json.loads(line) for line in lines]
    assert not [row for row in found if row["type"] == "error"]
    assert {row["file"] for row in found} <= {str(path) for path in files}
    assert "record" in {row["type"] for row in found}


def test_csv_has_one_header_for_all_kinds(golden: GoldenFactory) -> None:
    partition = golden(SCENARIOS) / "txn-0"
    found = list(csv.DictReader(io.StringIO(run("dump", f"{partition}/*index", "--csv").stdout)))
    assert {row["type"] for row in found} == {"offset_index_entry", "time_index_entry", "aborted_transaction"}
    aborted = next(row for row in found if row["type"] == "aborted_transaction")
    assert aborted["producer_id"] != ""
    assert aborted["position"] == ""


def test_batches_and_json_arrays(golden: GoldenFactory) -> None:
    log = golden(FLIGHTS) / "flights-0" / f"{0:020d}.log"
    batches = rows("dump", log, "--batches")
    assert [row["base_offset"] for row in batches][:2] == [0, 161]
    assert len(rows("dump", log)) == sum(row["count"] for row in batches)
    assert len(rows("dump", log, "--batches", "--max-bytes", batches[1]["position"])) == 1


def test_damage_is_a_finding(golden_copy: GoldenFactory) -> None:
    log = golden_copy(FLIGHTS) / "flights-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert run("dump", log, code=1).stdout
    (log.parent / "partition.metadata").write_text("rubbish")
    (row,) = rows("dump", log.parent / "partition.metadata", code=1)
    assert row["type"] == "error"


def test_mismatches_go_to_stderr_with_exit_code_1(golden_copy: GoldenFactory) -> None:
    index = golden_copy(FLIGHTS) / "flights-0" / f"{0:020d}.index"
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    result = run("dump", "--kafka-format", "--verify-index-only", index, code=1)
    assert "Mismatches in :" in result.stderr
    assert "Mismatches" not in result.stdout


def test_switches_imply_what_kafkas_do(golden: GoldenFactory) -> None:
    log = golden(FLIGHTS) / "flights-0" / f"{0:020d}.log"
    deep = run("dump", "--kafka-format", "--deep-iteration", log).stdout
    assert "| offset: 0" in deep
    assert "payload" not in deep
    assert "payload" in run("dump", "--kafka-format", log, "--value-decoder-class").stdout
    bare = run("dump", "--kafka-format", "--print-data-log", "--skip-record-metadata", log).stdout
    assert "| offset: 0" not in bare
    assert (
        "passed sanity check" in run("dump", "--kafka-format", "--index-sanity-check", log.with_suffix(".index")).stdout
    )
