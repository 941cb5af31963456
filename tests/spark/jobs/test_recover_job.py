"""The recovery job in real Spark leaves the same bytes as ``tidelog recover --apply``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.runner import rows as printed
from cli.runner import run as command
from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS, footprint
from log_maker import plain, write_segment
from real_kafka.directories import differences
from tidelog.model import ConfigError, DirectoryError, TopicPartition
from tidelog.spark.jobs.recover import recover
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions
from tidelog.storage.manager.staged.staged_commit import StagedCommit, StagedFile, StagedName, write_intent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WRITTEN_MS = 1_795_218_000_000
"""The wall clock when the golden sets were written. Later, a broker has forgotten their producers."""
OPTIONS = RecoverOptions(now_ms=WRITTEN_MS)


def contents(path: Path) -> dict[str, bytes]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def rows_of(spark: SparkSession, *paths: Path, **others: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in recover(spark, paths, OPTIONS, **others).collect()]


def stage(directory: Path) -> None:
    """Write a decided commit that was not carried out, and a staged file without a commit."""
    batch = plain(0)
    staged = StagedFile(str(StagedName("q", 3, "w", 0)), len(batch))
    (directory / staged.name).write_bytes(batch)
    write_intent(LOCAL, directory, StagedCommit(query="q", batch=3, files={TopicPartition("plain", 0): (staged,)}))
    (directory / str(StagedName("r", None, "w", 0))).write_bytes(batch)


@pytest.fixture
def killed(golden_copy: GoldenFactory) -> list[Path]:
    return [golden_copy(name, "unclean", name) for name in (FLIGHTS, SCENARIOS)]


def test_killed_directories_become_what_their_brokers_made_of_them(
    spark: SparkSession, golden: GoldenFactory, killed: list[Path]
) -> None:
    before = [footprint(path) for path in killed]
    planned = rows_of(spark, *killed)
    assert [footprint(path) for path in killed] == before
    told: list[tuple[int, int]] = []
    done = rows_of(spark, *killed, apply=True, on_progress=lambda *now: told.append(now))
    for path, name in zip(killed, (FLIGHTS, SCENARIOS), strict=True):
        assert differences(path, golden(name, "clean")) == []
        assert CleanShutdownFile(LOCAL, path).read() == -1
    assert {row["error"] for row in done} == {None}
    for name in ("segmentsToRecover", "fromOffset", "reasons", "readBytes", "leftovers"):
        assert [row[name] for row in planned] == [row[name] for row in done]
    assert sum(row["segmentsToRecover"] or 0 for row in planned) == sum(row["recoveredSegments"] or 0 for row in done)
    total = sum(row["readBytes"] or 0 for row in planned)
    assert (told[0], told[-1]) == ((0, total), (total, total))


def test_it_leaves_what_one_process_leaves(spark: SparkSession, golden_copy: GoldenFactory) -> None:
    """The job carries out a sink's decided commit and removes other staged files, as one process does."""
    directory = golden_copy(SCENARIOS, "unclean")
    stage(directory)
    alone = shutil.copytree(directory, directory.with_name("alone"))
    recover_directory(LOCAL, alone, OPTIONS)
    (planned, *_) = rows_of(spark, directory, topics=["plain"])
    assert (planned["commit"], planned["stagedFiles"]) == ("batch 3 of q", 1)
    (done, *_) = rows_of(spark, directory, apply=True)
    assert (done["commit"], done["error"]) == ("batch 3 of q", None)
    assert contents(directory) == contents(alone)


def test_what_cannot_be_done_is_in_its_row(spark: SparkSession, tmp_path: Path, killed: list[Path]) -> None:
    held, other = killed
    lock = LOCAL.lock(held / ".lock")
    broken = tmp_path / "broken"
    for number in range(2):
        write_segment(broken / f"t-{number}", 0, [plain(0)])
    (broken / "t-1" / f"{5:020d}.log").mkdir()
    before = contents(held), contents(broken)
    rows = rows_of(spark, held, broken, other, apply=True)
    lock.release()
    of = {(Path(row["directory"]), row["name"]): row["error"] for row in rows}
    assert "locked" in of[held, None]
    assert contents(held) == before[0]
    assert of[broken, "t-0"] is None
    assert of[broken, "t-1"] is not None
    assert "1 partitions failed" in of[broken, None]
    assert not CleanShutdownFile(LOCAL, broken).exists()
    assert of[other, None] is None


def test_the_command(spark: SparkSession, killed: list[Path]) -> None:
    text = command("spark", "recover", *killed).stdout
    assert "Nothing was changed" in text
    assert "killed" in text
    assert "partition" in {row["kind"] for row in printed("spark", "recover", killed[0], "--topic", "flights")}
    rows = printed("spark", "recover", *killed, "--apply")
    assert {row["error"] for row in rows} == {None}
    command("spark", "recover", *killed, "--apply")
    assert "do not name a topic" in command("spark", "recover", killed[0], "--apply", "-t", "flights", code=2).stderr


def test_what_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DirectoryError):
        recover(spark, tmp_path)
    with pytest.raises(ConfigError):
        recover(spark, tmp_path, topics=["t"], apply=True)
