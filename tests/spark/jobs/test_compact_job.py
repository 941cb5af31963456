"""The compaction job in real Spark leaves the same bytes as ``tidelog compact --apply``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.runner import rows as printed
from cli.runner import run as command
from dirty_directory import EVERY_LOG, TOPIC, last_values, make_dirty
from log_maker import BASE_TIME, mark_clean
from overflowed_log import three_pieces
from tidelog.model import DirectoryError, Isolation
from tidelog.runtime.clock import FixedClock
from tidelog.spark.jobs.compact import JobOptions, compact
from tidelog.spark.jobs.progress import OnProgress
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.compact import compact_directory
from tidelog.storage.manager.compact.compact_plan import CompactOptions
from tidelog.storage.manager.survey.setting_sources import SettingSources

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

NOW_MS = BASE_TIME + 1_000_000
SETTINGS = {TOPIC: EVERY_LOG | {"segment.bytes": "4096", "min.cleanable.dirty.ratio": "0"}}


def options(**others: Any) -> JobOptions:
    return JobOptions(topic_settings=SETTINGS, now_ms=NOW_MS, **others)


def run(
    spark: SparkSession, *paths: Path, apply: bool, on_progress: OnProgress | None = None, **others: Any
) -> list[Row]:
    found: list[Row] = compact(spark, paths, options(**others), apply=apply, on_progress=on_progress).collect()
    return found


def by_one_process(source: Path, target: Path) -> dict[str, bytes]:
    shutil.copytree(source, target)
    sources = SettingSources(topic_overrides=SETTINGS)
    assert not compact_directory(LOCAL, target, CompactOptions(sources=sources, clock=FixedClock(NOW_MS))).failures
    return contents(target)


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    return make_dirty(tmp_path / "data", partitions=3)


def test_directories_are_planned_and_nothing_changes(spark: SparkSession, dirty: Path) -> None:
    other = shutil.copytree(dirty, dirty.with_name("other"))
    before = contents(dirty.parent)
    rows = run(spark, dirty, other, apply=False)
    assert contents(dirty.parent) == before
    assert [(row["directory"], row["partition"]) for row in rows] == [
        (str(path), number) for path in (dirty, other) for number in range(3)
    ]
    assert all(row["isDue"] and row["dirtyRatio"] == 1.0 and row["bytes"] is None for row in rows)


def test_logs_a_task_each(spark: SparkSession, dirty: Path) -> None:
    expected = by_one_process(dirty, dirty.with_name("expected"))
    other = shutil.copytree(dirty, dirty.with_name("other"))
    rows = run(spark, dirty, other, apply=True)
    assert [row["error"] for row in rows] == [None] * 6
    assert all(row["bytes"] < row["bytesBefore"] and row["tasks"] == 1 for row in rows)
    assert contents(dirty) == contents(other) == expected


def test_a_log_over_many_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Two rounds of appends and compaction leave the same bytes, with a clean part and transactions across groups."""
    dirty = make_dirty(tmp_path / "data", partitions=2, batches=40)
    expected = by_one_process(dirty, dirty.with_name("expected"))
    rows = run(spark, dirty, apply=True, spread_bytes=0)
    assert [row["error"] for row in rows] == [None] * 2
    assert all(row["tasks"] > 1 for row in rows)
    assert contents(dirty) == expected
    make_dirty(dirty, partitions=2, batches=12, seed=2)
    expected = by_one_process(dirty, dirty.with_name("expected again"))
    values = last_values(dirty, Isolation.READ_COMMITTED)
    rows = run(spark, dirty, apply=True, spread_bytes=0)
    assert [row["error"] for row in rows] == [None] * 2
    assert contents(dirty) == expected
    assert last_values(dirty, Isolation.READ_COMMITTED) == values
    assert sorted(path.name for path in dirty.iterdir() if path.is_dir()) == ["t-0", "t-1"]


@pytest.mark.parametrize("spread_bytes", [0, 1 << 30])
def test_what_cannot_be_done_is_in_its_row(spark: SparkSession, tmp_path: Path, spread_bytes: int) -> None:
    dirty = make_dirty(tmp_path / "data", partitions=2)
    log = sorted((dirty / "t-1").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    before = {name: data for name, data in contents(dirty).items() if name.startswith("t-1")}
    assert [row["stoppedBy"] is None for row in run(spark, dirty, apply=False)] == [True, False]
    killed = make_dirty(dirty.with_name("killed"), partitions=1)
    (killed / ".kafka_cleanshutdown").unlink()
    held = make_dirty(dirty.with_name("held"), partitions=1)
    lock = LOCAL.lock(held / ".lock")
    rows = run(spark, dirty, killed, held, apply=True, spread_bytes=spread_bytes)
    lock.release()
    errors = {(Path(row["directory"]).name, row["partition"]): row["error"] or "" for row in rows}
    assert [name for name, error in errors.items() if not error] == [("data", 0)]
    assert str(log) in errors["data", 1]
    assert "recover it first" in errors["killed", None]
    assert errors["held", None]
    assert {name: data for name, data in contents(dirty).items() if name.startswith("t-1")} == before
    assert not list(dirty.glob("*-delete"))


def test_an_overflowed_segment_is_split_by_one_task(spark: SparkSession, tmp_path: Path) -> None:
    three_pieces(tmp_path / "t-0")
    mark_clean(tmp_path)
    [row] = run(spark, tmp_path, apply=True, spread_bytes=0)
    assert (row["error"], row["tasks"], row["segments"]) == (None, 1, 5)


def test_the_command_spreads_a_log_that_is_too_large(spark: SparkSession, dirty: Path) -> None:
    words = [word for key, text in SETTINGS[TOPIC].items() for word in ("--topic-config", f"{TOPIC}:{key}={text}")]
    rows = printed("spark", "compact", dirty, "--topic", TOPIC, *words)
    assert {row["isDue"] for row in rows} == {True}
    command("spark", "compact", dirty, "--topic-config", "nonsense", code=2)
    rows = printed("spark", "compact", dirty, "--apply", "--all", "--spread-bytes", 0, *words)
    assert all(row["tasks"] > 1 for row in rows)


def test_the_command(spark: SparkSession, dirty: Path) -> None:
    words = [word for key, text in SETTINGS[TOPIC].items() for word in ("--topic-config", f"{TOPIC}:{key}={text}")]
    told: list[tuple[int, int]] = []
    total = sum(row["dirtyBytes"] for row in run(spark, dirty, apply=False, on_progress=lambda *now: told.append(now)))
    assert (told[0], told[-1]) == ((0, total), (total, total))
    assert "3 of 3 logs are due" in command("spark", "compact", dirty, "--all", *words).stdout
    killed = make_dirty(dirty.with_name("killed"), partitions=1)
    (killed / ".kafka_cleanshutdown").unlink()
    rows = printed("spark", "compact", dirty, killed, "--all", "--apply", *words, code=3)
    assert [(row["partition"], row["error"] is None) for row in rows] == [(None, False), *((n, True) for n in range(3))]
    assert "0 of 0 due logs" in command("spark", "compact", dirty, "--all", "--apply", "--no-check", *words).stdout


def test_a_path_that_is_no_log_directory(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DirectoryError):
        compact(spark, tmp_path)
