"""``tidelog snapshot``: a plan writes nothing, ``--apply`` carries it out, and mistakes are named."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import EVERYTHING, FLIGHTS, SCENARIOS
from snapshot_checks import digests, records, until
from snapshot_source import T0, Source
from tidelog.model import TopicPartition

SET = EVERYTHING["4.4"]


def middle(source: Path) -> int:
    times = sorted(one.timestamp for one in records(source, TopicPartition("plain", 0)))
    return times[len(times) // 2]


def begun(source: Path, target: Path) -> subprocess.Popen[bytes]:
    """Run the command until the unfinished directory is there, or until it has ended."""
    command = [sys.executable, "-m", "tidelog", "snapshot", str(source), str(target), "--at", "now", "--apply"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not target.with_name(f"{target.name}.unfinished").exists() and process.poll() is None:
        pass
    return process


def test_a_plan_writes_nothing_and_apply_does_what_it_says(golden_copy: GoldenFactory, tmp_path: Path) -> None:
    source, target = golden_copy(SET), tmp_path / "snap"
    before, at = digests(source), middle(source)
    planned = {row["name"]: row for row in rows("snapshot", source, target, "--at", at)}
    text = run("snapshot", source, target, "--at", at).stdout
    assert not target.exists()
    assert digests(source) == before
    assert "bytes are linked" in text
    assert "Partitions that end before their log" in text
    done = {row["name"]: row for row in rows("snapshot", source, target, "--at", at, "--apply")}
    assert done.keys() == planned.keys()
    for name, row in done.items():
        plan = planned[name]
        for field in ("log_start", "source_log_end", "ended_by", "first_left_out", "linked_bytes", "transactions"):
            assert row[field] == plan[field], (name, field)
        assert row["copied_bytes"] == plan["copied_bytes"], name
        assert row["log_end"] - plan["log_end"] in (0, len(row["transactions"]), 1), name
    plain = TopicPartition("plain", 0)
    assert records(target, plain) == until(records(source, plain), at)
    assert digests(source) == before
    assert run("verify", target).exit_code == 0


def test_offsets_from_the_output_of_another_command(golden_copy: GoldenFactory, tmp_path: Path) -> None:
    source, at = golden_copy(SET), None
    at = middle(source)
    file = tmp_path / "ends.json"
    file.write_text(run("offsets", source, "plain", "--time", at + 1, "--json").stdout)
    run("snapshot", source, tmp_path / "by-offsets", "--at-offsets", file, "--apply")
    run("snapshot", source, tmp_path / "by-time", "--at", at, "--apply")
    for number in range(4):
        one = TopicPartition("plain", number)
        assert records(tmp_path / "by-offsets", one) == records(tmp_path / "by-time", one)
    whole = TopicPartition("zstd", 0)
    assert records(tmp_path / "by-offsets", whole) == records(source, whole)


def test_the_report_names_offsets_outside_of_the_log(golden: GoldenFactory, tmp_path: Path) -> None:
    file = tmp_path / "ends.json"
    file.write_text(json.dumps({"plain-0": 10**9, "nothing-7": 3}))
    text = run("snapshot", golden(SET), tmp_path / "snap", "--at-offsets", file).stdout
    assert "plain-0 (1000000000 becomes 300)" in text
    assert "names partitions that are not here: nothing-7" in text


def test_the_report_names_open_transactions(golden: GoldenFactory, tmp_path: Path) -> None:
    text = run("snapshot", golden(SET), tmp_path / "snap", "--at", "now").stdout
    assert "1 open transactions: 1 are aborted, and 0 are committed" in text
    assert "writer-1" in text
    text = run("snapshot", golden(SET), tmp_path / "snap", "--at", "now", "--open-transactions", "keep").stdout
    assert "1 open transactions are kept open." in text


def test_a_compacted_partition_is_warned_of(golden: GoldenFactory, tmp_path: Path) -> None:
    file = tmp_path / "ends.json"
    file.write_text(json.dumps({"compacted-0": 100}))
    text = run("snapshot", golden(SET), tmp_path / "snap", "--at-offsets", file).stdout
    assert "Keys that were written again later are missing: compacted-0." in text


def test_commits_above_the_end_are_named(golden_copy: GoldenFactory, tmp_path: Path) -> None:
    source = golden_copy(FLIGHTS)
    committed = [row for row in rows("offsets", source, "--groups") if row["offset"] > 1]
    name = f"{committed[0]['topic']}-{committed[0]['partition']}"
    file = tmp_path / "ends.json"
    file.write_text(json.dumps({name: 1}))
    text = run("snapshot", source, tmp_path / "snap", "--at-offsets", file, "--apply").stdout
    assert f"{committed[0]['group']} at {committed[0]['offset']} of {name}, which ends at 1" in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{data}", "{snap}"], 2, "Name the moment with --at or --at-offsets."),
        (["{data}", "--at", "now"], 2, "Name a DEST for each DIR"),
        (["{data}", "{snap}", "--at", "latest"], 2, "--at needs a time, not 'latest'"),
        (["{data}", "{snap}", "{data}", "{snap}", "--at", "now"], 2, "A DIR is named twice."),
        (["{data}", "s3://bucket/snap", "--at", "now"], 2, "A snapshot needs disks"),
        (["{data}", "{data}", "--at", "now"], 3, "a file or directory with this name already exists"),
        (["{data}", "{data}/inside", "--at", "now"], 3, "the output cannot be inside the source directory"),
        (["{root}/none", "{snap}", "--at", "now"], 3, "no such file or directory"),
        (["{root}", "{snap}", "--at", "now"], 3, "not a Kafka log directory"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    source = Source(tmp_path / "data")
    source.log("t-0").append([T0])
    source.finish()
    places = {"data": str(tmp_path / "data"), "snap": str(tmp_path / "snap"), "root": str(tmp_path)}
    result = run("snapshot", *(one.format(**places) for one in arguments), code=code)
    assert message in result.stderr
    assert not (tmp_path / "snap").exists()


def test_damage_before_the_end_refuses_the_snapshot(tmp_path: Path) -> None:
    source = Source(tmp_path / "data")
    for number in range(3):
        source.log("t-0").append([T0 + number])
    source.finish()
    log = tmp_path / "data" / "t-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[:-100] + b"?" + log.read_bytes()[-99:])
    result = run("snapshot", source.path, tmp_path / "snap", "--at", T0 + 5, "--apply", code=3)
    assert "a batch below the end at offset 3 is damaged, so its copy ends at" in result.stderr
    assert not (tmp_path / "snap.unfinished").exists()
    assert not (tmp_path / "snap").exists()


def test_a_leftover_is_named_and_replaced(tmp_path: Path) -> None:
    source = Source(tmp_path / "data")
    source.log("t-0").append([T0])
    source.finish()
    leftover = tmp_path / "snap.unfinished"
    (leftover / "t-0").mkdir(parents=True)
    os.link(tmp_path / "data" / "t-0" / f"{0:020}.log", leftover / "t-0" / "linked")
    before = digests(source.path)
    assert f"{leftover} is left over" in run("snapshot", source.path, tmp_path / "snap", "--at", "now").stdout
    run("snapshot", source.path, tmp_path / "snap", "--at", "now", "--apply")
    assert not leftover.exists()
    assert digests(source.path) == before


def test_ctrl_c_leaves_nothing(golden: GoldenFactory, tmp_path: Path) -> None:
    """The command is interrupted at its start, and either nothing or everything is there."""
    source = golden(SCENARIOS)
    before = digests(source)
    process = begun(source, tmp_path / "snap")
    process.send_signal(signal.SIGINT)
    process.wait(100)
    assert process.returncode in (0, 130)
    assert (tmp_path / "snap").exists() == (process.returncode == 0)
    assert not (tmp_path / "snap.unfinished").exists()
    assert digests(source) == before


def test_a_killed_run_can_be_repeated(golden: GoldenFactory, tmp_path: Path) -> None:
    source = golden(SCENARIOS)
    before = digests(source)
    process = begun(source, tmp_path / "snap")
    process.kill()
    process.wait(100)
    if not (tmp_path / "snap").exists():
        run("snapshot", source, tmp_path / "snap", "--at", "now", "--apply")
    plain = TopicPartition("plain", 0)
    assert records(tmp_path / "snap", plain) == records(source, plain)
    assert digests(source) == before
    shutil.rmtree(tmp_path / "snap")
