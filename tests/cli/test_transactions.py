"""``tidelog transactions``: rows, verdicts, exit codes, filters, several directories, notes, errors."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from coordinator_maker import COMPLETE_ABORT, ONGOING, State, write_states
from golden_sets import FLIGHTS, SCENARIOS
from log_maker import BASE_TIME, data, mark_clean, plain, write_segment

BEGAN = 1_795_216_675_768
"""The start time in ms that the coordinator has for the only open transaction of the ``SCENARIOS`` set."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write two partitions, each with an open transaction: of producer 7 in ``t-0``, of producer 8 in ``t-1``."""
    root = tmp_path / "data"
    write_segment(root / "t-0", 0, [plain(0, 10), data(10, 3), plain(13, 4)])
    write_segment(root / "t-1", 0, [data(0, 2, producer_id=8)])
    return root


def test_a_real_one_in_every_format(golden: GoldenFactory) -> None:
    directory = golden(SCENARIOS)
    (row,) = rows("transactions", directory, "--now", BEGAN)
    assert (row["topic"], row["partition"], row["producer_id"], row["start_offset"]) == ("txn", 0, 2, 516)
    assert (row["transactional_id"], row["state"], row["known_epoch"]) == ("golden-c", "Ongoing", 0)
    assert (row["verdict"], row["hangs"], row["age_ms"], row["held_back_records"]) == ("open", False, 2, 45)
    (line,) = run("transactions", directory, "--now", BEGAN, "--jsonl").stdout.splitlines()
    assert json.loads(line) == row
    (record,) = csv.DictReader(io.StringIO(run("transactions", directory, "--csv").stdout))
    assert record["held_back_bytes"] == str(row["held_back_bytes"])
    text = run("transactions", directory, "--now", BEGAN + 7_260_000).stdout
    assert "overdue" in text
    assert "2 hours 1 minute" in text
    assert "past its timeout: its coordinator aborts it as soon as that coordinator runs" in text
    assert "Open transactions in 25 partitions: 1; hanging or suspected to: 0." in text


def test_none(golden: GoldenFactory) -> None:
    assert rows("transactions", golden(FLIGHTS)) == []
    header = run("transactions", golden(FLIGHTS), "--csv").stdout.split(",")
    assert header[:4] == ["directory", "topic", "partition", "producer_id"]
    assert "hanging or suspected to: 0." in run("transactions", golden(FLIGHTS)).stdout


def test_those_that_hang_end_with_1_and_say_what_to_do(root: Path) -> None:
    write_states(root, [State(7, COMPLETE_ABORT), State(8, ONGOING, (1,), "other", started=BASE_TIME)])
    found = rows("transactions", root, "--now", BASE_TIME, code=1)
    assert [(row["partition"], row["verdict"]) for row in found] == [(0, "hanging"), (1, "open")]
    assert rows("transactions", root, "--hanging", "--now", BASE_TIME, code=1) == found[:1]
    assert rows("transactions", root, "t-1", "--hanging", "--now", BASE_TIME) == []
    text = run("transactions", root, "t-0", code=1).stdout
    assert "its coordinator has no transaction with this partition: CompleteAbort" in text
    assert "abort --topic t --partition 0 --start-offset 10" in text
    assert "--partition 1" not in text


def test_silent_ones_are_suspected(root: Path) -> None:
    last = BASE_TIME + 2
    assert {row["verdict"] for row in rows("transactions", root, "t-0", "--now", last + 900_000)} == {"open"}
    assert {row["verdict"] for row in rows("transactions", root, "t-0", "--now", last + 900_001, code=1)} == {
        "suspected"
    }
    options = ["--now", last + 900_001, "--hanging-after"]
    assert {row["verdict"] for row in rows("transactions", root, "t-0", *options, "1h")} == {"open"}
    assert {row["verdict"] for row in rows("transactions", root, "t-0", *options, "899s", code=1)} == {"suspected"}


def test_coordinators_in_the_other_directory_of_a_broker(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_states(other, [State(7, ONGOING, (0,), started=BASE_TIME)])
    for directory in (root, other):
        (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    assert rows("transactions", root, "t-0", "--now", BASE_TIME)[0]["state"] is None
    (row,) = rows("transactions", root, other, "t-0", "--now", BASE_TIME)
    assert (row["state"], row["directory"]) == ("Ongoing", str(root))
    # A partition given by its path also brings the coordinators of its log directory.
    (row,) = rows("transactions", root / "t-0", other, "--now", BASE_TIME)
    assert row["state"] == "Ongoing"


def test_what_cannot_be_read(root: Path) -> None:
    path = write_segment(root / "v-0", 0, [data(0, 2)])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for name in ("t-0", "t-1", "v-0"):
        (root / name / f"{0:020d}.snapshot").write_bytes(b"")
    mark_clean(root)
    found = rows("transactions", root, "--now", BASE_TIME, code=3)
    assert [(row["topic"], row["error"] is None) for row in found] == [("t", True), ("t", True), ("v", False)]
    assert str(path) in found[2]["error"]
    assert str(path) in run("transactions", root, "--now", BASE_TIME, code=3).stdout
    states = write_states(root, [State(7, ONGOING, (0,), started=BASE_TIME)])
    content = bytearray(states.read_bytes())
    content[-1] ^= 1
    states.write_bytes(content)
    (states.with_suffix(".snapshot")).write_bytes(b"")
    assert str(states) in run("transactions", root, "t-0", "--now", BASE_TIME, code=3).stdout


@pytest.mark.parametrize("options", [["--hanging-after", "15"], ["--hanging-after", "x"], ["--now", "earliest"]])
def test_wrong_usage(root: Path, options: list[str]) -> None:
    run("transactions", root, *options, code=2)
