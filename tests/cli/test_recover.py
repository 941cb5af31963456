"""``tidelog recover``: a plan changes nothing, ``--apply`` recovers as Kafka does, an interrupted run is repeatable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidelog
import tidelog.cli.recover as recover_module
from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, KRAFT_SETS, SCENARIOS, footprint, manifest
from log_maker import plain
from overflowed_log import OVERFLOWED, PIECES, three_pieces
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import RecoverResult, recover_directory
from tidelog.storage.manager.staged.staged_commit import StagedCommit, StagedFile, StagedName, write_intent


def test_a_plan_changes_nothing_and_names_its_work(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS, "unclean")
    before = footprint(directory)
    found = {row["name"]: row for row in rows("recover", directory)}
    text = run("recover", directory).stdout
    assert footprint(directory) == before
    compacted = found["compacted-0"]
    assert (compacted["segments"], compacted["from_offset"]) == (1, 2360)
    assert compacted["reasons"] == ["unflushed"]
    assert len(compacted["leftovers"]) == 180
    read = sum(row["read_bytes"] for row in found.values())
    assert f"{read:,} bytes to read" in text
    assert "bytes of space needed" in text
    assert "Nothing was changed. Use --apply to do it." in text


def test_a_plan_for_some_partitions(golden: GoldenFactory) -> None:
    found = rows("recover", golden(SCENARIOS, "unclean"), "plain", "txn-0")
    assert [row["name"] for row in found] == ["plain-0", "plain-1", "plain-2", "txn-0"]


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_applied_it_leaves_the_logs_that_kafka_leaves(
    golden: GoldenFactory, golden_copy: GoldenFactory, set_name: str
) -> None:
    directory, expected = golden_copy(set_name, "unclean"), golden(set_name)
    done = {row["name"]: row for row in rows("recover", directory, "--apply")}
    for name, levels in manifest(set_name).items():
        assert done[name]["log_end"] == levels["read_uncommitted"]["high"]
        assert done[name]["error"] is None
        theirs = {path.name: path.read_bytes() for path in (expected / name).iterdir() if path.suffix != ""}
        ours = {path.name: path.read_bytes() for path in (directory / name).iterdir() if path.suffix != ""}
        theirs.pop("leader-epoch-checkpoint", None)
        ours.pop("leader-epoch-checkpoint", None)
        assert ours == theirs
    assert {row["condition"] for row in rows("info", directory)} == {"clean"}
    assert rows("verify", directory)
    again = run("recover", directory, "--apply").stdout
    assert "0 bytes truncated; its shutdown counts as clean now." in again


def test_a_cut_tail_is_said(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    log = max((directory / "flights-0").glob("*.log"))
    with log.open("ab") as file:
        file.write(b"\0" * 100)
    done = {row["name"]: row for row in rows("recover", directory, "--apply")}
    assert done["flights-0"]["cut_bytes"] == 100
    assert done["flights-1"]["cut_bytes"] == 0


def test_topic_settings_reach_the_logs(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    entries = {}
    for interval in (100_000, 1):
        setting = f"flights:index.interval.bytes={interval}"
        run("recover", directory, "--apply", "--topic-config", setting)
        (directory / ".kafka_cleanshutdown").unlink()
        entries[interval] = sum(path.stat().st_size // 8 for path in (directory / "flights-0").glob("*.index"))
    assert entries[100_000] < entries[1]


def test_a_segment_to_split_is_foretold_and_told(tmp_path: Path) -> None:
    three_pieces(tmp_path / "t-0")
    assert rows("recover", tmp_path)[0]["splits"] == [OVERFLOWED]
    assert f"t-0: segments to split (no index can hold their offsets): {OVERFLOWED}." in run("recover", tmp_path).stdout
    assert "splits 1 segment with offsets that no index can hold" in run("verify", tmp_path, code=1).stdout
    done = run("recover", tmp_path, "--apply").stdout
    assert f"it was split into those at {', '.join(map(str, PIECES))}." in done
    assert "a broker loads 1 of them as they are" in run("verify", tmp_path, code=1).stdout


def test_a_commit_is_foretold_and_carried_out(tmp_path: Path) -> None:
    decided, left = (str(StagedName("q", batch, "w", 0)) for batch in (7, 8))
    for name in (decided, left):
        (tmp_path / name).write_bytes(plain(0, 3))
    files = {TopicPartition("t", 0): (StagedFile(decided, len(plain(0, 3))),)}
    tidelog.open_log(tmp_path / "t-0").close()
    write_intent(LOCAL, tmp_path, StagedCommit(query="q", batch=7, files=files))
    told = run("recover", str(tmp_path)).output
    assert "Decided commit of batch 7 of q, to complete: 1 staged files into 1 partitions." in told
    assert left in told
    assert rows("recover", str(tmp_path), "--apply")[0]["log_end"] == 3
    told = run("recover", str(tmp_path)).output
    assert "staged" not in told


def test_a_held_directory_is_refused_but_planned(tmp_path: Path, golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    with tidelog.open_log(directory / "airports-0"):
        result = run("recover", directory, "--apply", code=3)
        assert "Error: " in result.stderr


def test_a_partition_that_cannot_be_recovered_is_named(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    log = max((directory / "delays-0").glob("*.log"))
    log.unlink()
    log.mkdir()
    result = run("recover", directory, "--apply", "--jsonl", code=3)
    failed = [row for row in map(json.loads, result.stdout.splitlines()) if row["error"] is not None]
    assert [row["name"] for row in failed] == ["delays-0"]
    assert not (directory / ".kafka_cleanshutdown").exists()


def test_an_interruption_can_be_repeated(golden_copy: GoldenFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = golden_copy(FLIGHTS, "unclean")

    def interrupted(*arguments: Any, **named: Any) -> RecoverResult:
        def stop(_progress: object) -> None:
            raise KeyboardInterrupt

        return recover_directory(*arguments, **named | {"on_progress": stop})

    monkeypatch.setattr(recover_module, "recover_directory", interrupted)
    result = run("recover", directory, "--apply", code=130)
    assert "Run the command again." in result.stderr
    assert not (directory / ".kafka_cleanshutdown").exists()
    monkeypatch.undo()
    run("recover", directory, "--apply")
    assert (directory / ".kafka_cleanshutdown").exists()


def test_little_space_is_a_warning(golden_copy: GoldenFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    usage = shutil.disk_usage(directory)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=0))
    assert "0 are free" in run("recover", directory, "--apply").stderr


def test_directories_together(golden_copy: GoldenFactory) -> None:
    disks = [golden_copy(name, "unclean", name=f"disk-{number}") for number, name in enumerate(KRAFT_SETS)]
    done = rows("recover", *disks, "--apply")
    assert {row["directory"] for row in done} == {str(disk) for disk in disks}
    with tidelog.open_directory(disks[0], read_only=True) as directory:
        assert TopicPartition("flights", 0) in directory.partitions()
