"""``tidelog compact``: the plan changes nothing and gives reasons; ``--apply`` compacts in place or into a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tidelog
import tidelog.cli.compact as compact_module
from cli.runner import rows, run
from conftest import GoldenFactory
from dirty_directory import last_values, make_dirty, record_offsets, topic_settings
from golden_sets import FLIGHTS, KRAFT_SETS, footprint
from log_maker import batch, mark_clean, plain, write_checkpoint, write_segment
from overflowed_log import OVERFLOWED, three_pieces
from tidelog.model import Isolation
from tidelog.storage.manager.compact.compact import CompactResult


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    return make_dirty(tmp_path / "data", partitions=2)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_a_plan_of_real_directories_changes_nothing(golden: GoldenFactory, set_name: str, kind: str) -> None:
    directory = golden(set_name, kind)
    before = footprint(directory)
    found = {row["name"]: row for row in rows("compact", directory, "--all")}
    text = run("compact", directory).stdout
    assert footprint(directory) == before
    assert all(row["error"] is None and row["stopped_by"] is None for row in found.values())
    assert "compacted logs are due" in text
    assert "Topic settings are those of the cluster metadata" in text
    assert "__cluster_metadata-0" not in found


def test_what_kafkas_own_cleaner_left_dirty(golden: GoldenFactory) -> None:
    [row] = rows("compact", golden(FLIGHTS), "airports", "--all")
    assert (row["first_dirty"], row["first_uncleanable"], row["due"]) == (4500, 4503, True)
    assert (row["clean_bytes"], row["dirty_bytes"], row["uncleanable_bytes"]) == (213_651, 229, 77)
    assert row["settings_from"]["cleanup.policy"] == "topic"
    [row] = rows("compact", golden(FLIGHTS), "airports")
    assert not row["due"]
    assert "min.cleanable.dirty.ratio" in row["why"]


def test_who_is_due_and_why_not(dirty: Path) -> None:
    assert {row["why"] for row in rows("compact", dirty)} == {"cleanup.policy is delete"}
    found = rows("compact", dirty, *topic_settings())
    assert all(row["due"] and row["dirty_ratio"] == 1.0 for row in found)
    run("compact", dirty, "--apply", *topic_settings())
    found = rows("compact", dirty, *topic_settings())
    assert not any(row["due"] for row in found)
    assert all("active segment" in row["why"] for row in found)


def test_a_ratio_for_all_topics(dirty: Path, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.cleanup.policy=compact\nlog.cleaner.min.cleanable.ratio=1.0\n")
    name = ["compact", dirty, "--config-file", file]
    assert not any(row["due"] for row in rows(*name))
    assert all(row["due"] for row in rows(*name, "--min-dirty-ratio", "0.9"))
    assert all(row["due"] for row in rows(*name, "--all"))


def test_a_batch_that_stops_the_cleaner_is_named(dirty: Path) -> None:
    log = sorted((dirty / "t-0").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    result = run("compact", dirty, *topic_settings(), code=1)
    assert "t-0 will fail: the CRC of a batch does not match" in result.stdout
    row = next(row for row in rows("compact", dirty, *topic_settings(), code=1) if row["name"] == "t-0")
    assert (row["stop_file"], row["stop_position"], row["stop_offset"]) == (str(log), 0, int(log.stem))
    assert rows("compact", dirty, *topic_settings(), "--no-check")[0]["stopped_by"] is None
    done = rows("compact", dirty, "--apply", *topic_settings(), code=1)
    assert [(row["name"], row["error"] is None) for row in done] == [("t-1", True), ("t-0", False)]


def test_records_without_a_key_are_a_warning(tmp_path: Path) -> None:
    keyless = batch(10, [b"a", b"b"], key=None)
    write_segment(tmp_path / "t-0", 0, [plain(0), keyless, plain(12)])
    write_segment(tmp_path / "t-0", 22, [plain(22)])
    mark_clean(tmp_path)
    [row] = rows("compact", tmp_path, *topic_settings())
    [warning] = row["warnings"]
    assert "2 records without a key are dropped" in warning
    assert "offset 10)" in warning
    assert f"Warning: {warning}." in run("compact", tmp_path, *topic_settings()).stdout


def test_a_segment_to_split_is_foretold(tmp_path: Path) -> None:
    three_pieces(tmp_path / "t-0")
    mark_clean(tmp_path)
    [row] = rows("compact", tmp_path, *topic_settings())
    assert f"offset {OVERFLOWED:,})" in row["warnings"][0]
    assert row["stopped_by"] is None


def test_a_checkpoint_past_the_end_is_a_warning(dirty: Path) -> None:
    write_checkpoint(dirty, "cleaner-offset-checkpoint", {"t-1": 10**6})
    row = rows("compact", dirty, *topic_settings())[1]
    assert row["first_dirty"] == 0
    assert "larger than the log end offset" in row["warnings"][0]


def test_applied_in_place(dirty: Path) -> None:
    values = last_values(dirty, Isolation.READ_COMMITTED)
    done = rows("compact", dirty, "--apply", *topic_settings())
    assert [row["name"] for row in done] == ["t-0", "t-1"]
    assert all(row["bytes"] < row["bytes_before"] for row in done)
    assert last_values(dirty, Isolation.READ_COMMITTED) == values
    assert {row["kind"] for row in rows("verify", dirty)} == {"outlook"}
    assert "0 logs compacted" in run("compact", dirty, "--apply", *topic_settings()).stdout


def test_applied_to_one_topic_of_a_real_directory(golden_copy: GoldenFactory, golden: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS)
    before = last_of_airports(golden(FLIGHTS))
    run("compact", directory, "airports", "--apply", "--all")
    assert last_of_airports(directory) == before
    [row] = rows("compact", directory, "airports", "--all")
    assert (row["first_dirty"], row["due"]) == (4503, False)


def last_of_airports(path: Path) -> dict[bytes | None, bytes | None]:
    with tidelog.open_log(path / "airports-0", read_only=True) as log:
        values = {record.key: record.value for record in log.records()}
    return {key: value for key, value in values.items() if value is not None}


def test_into_a_copy(dirty: Path) -> None:
    before, output = footprint(dirty), dirty.parent / "copy"
    done = rows("compact", dirty, "--apply", "--output", output, *topic_settings())
    assert footprint(dirty) == before
    assert {row["directory"] for row in done} == {str(output)}
    assert last_values(output, Isolation.READ_COMMITTED) == last_values(dirty, Isolation.READ_COMMITTED)
    assert "already" in run("compact", dirty, "--apply", "--output", output, *topic_settings(), code=3).stderr


def test_a_killed_directory_is_planned_and_refused(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(FLIGHTS, "unclean")
    assert rows("compact", directory)
    assert "recover it first" in run("compact", directory, "--apply", "--all", code=3).stderr


def test_a_held_directory_is_planned_and_refused(dirty: Path) -> None:
    with tidelog.open_log(dirty / "t-0"):
        before = record_offsets(dirty)
        assert all(row["due"] for row in rows("compact", dirty, *topic_settings()))
        run("compact", dirty, "--apply", *topic_settings(), code=3)
        assert record_offsets(dirty) == before


@pytest.mark.parametrize(
    "options",
    [
        ["--plan", "--apply"],
        ["--output", "x"],
        ["--all", "--min-dirty-ratio", "0.5"],
        ["--min-dirty-ratio", "2"],
        ["--topic-config", "t:no.such.key=1"],
        ["--topic-config", "t"],
    ],
)
def test_wrong_usage(dirty: Path, options: list[str]) -> None:
    run("compact", dirty, *options, code=2)


def test_one_copy_at_a_time(dirty: Path) -> None:
    other = shutil.copytree(dirty, dirty.parent / "other")
    run("compact", dirty, other, "--apply", "--output", dirty.parent / "copy", code=2)


def test_an_interruption_is_said(dirty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **named: object) -> CompactResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(compact_module, "compact_directory", interrupted)
    assert "the others are unchanged" in run("compact", dirty, "--apply", *topic_settings(), code=130).stderr


def test_little_space_is_a_warning(dirty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(dirty)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=0))
    assert "0 are free" in run("compact", dirty, "--apply", *topic_settings()).stderr
