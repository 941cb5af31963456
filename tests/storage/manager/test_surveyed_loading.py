"""Loading with a survey of the directories leaves the same files and the same logs as loading without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import FORMATS, KRAFT_SETS
from tidelog.runtime.clock import FixedClock
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.load import loader
from tidelog.storage.log.load.listing import PartitionListing, list_partition
from tidelog.storage.log.load.survey import survey
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.logs import loading
from tidelog.storage.segment.segment_recovery import SegmentWalk, walk_segment

NOW_MS = 1_795_218_000_000
"""The evening when the sets were written. A day later, a broker would have expired idle producers."""


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def state(log: PartitionLog) -> dict[str, Any]:
    return {
        "segments": [(segment.base_offset, segment.size) for segment in log.segments],
        "offsets": log.offsets(),
        "recovery point": log.recovery_point,
        "epochs": log.epochs.entries,
        "producers": dict(log.producers),
        "topic id": log.topic_id,
        "warnings": [warning.replace(str(log.directory), "") for warning in log.loaded.warnings],
    }


def loaded(directory: Path) -> dict[str, dict[str, Any]]:
    manager = LogManager(LOCAL, [directory], clock=FixedClock(NOW_MS))
    manager.startup()
    found = {log.directory.name: state(log) for log in manager.all_logs()}
    manager.shutdown()
    return found


@pytest.mark.parametrize(
    ("set_name", "kind"), [*((name, kind) for name in KRAFT_SETS for kind in ("clean", "unclean")), (FORMATS, "clean")]
)
def test_both_ways_are_equal(
    golden_copy: GoldenFactory, monkeypatch: pytest.MonkeyPatch, set_name: str, kind: str
) -> None:
    first, second = golden_copy(set_name, kind, "first"), golden_copy(set_name, kind, "second")
    surveyed = loaded(first)

    def nothing(_fs: object, directories: Sequence[Path], **_: bool) -> list[None]:
        return [None] * len(directories)

    monkeypatch.setattr(loading, "survey", nothing)
    assert surveyed == loaded(second)
    assert files(first) == files(second)


def test_a_clean_log_is_loaded_from_its_survey(golden_copy: GoldenFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = golden_copy(KRAFT_SETS[-1], "clean")

    def unexpected(*_: object) -> int:
        raise AssertionError("the last segment was read again")

    monkeypatch.setattr(loader, "read_end_offset", unexpected)
    assert loaded(directory)


def test_small_segments_are_read_before(golden_copy: GoldenFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader gets the bytes of each log's last segment, which was not flushed.

    A directory with leftover files is listed again, and the manager does not load the metadata log.
    """
    directory = golden_copy(KRAFT_SETS[-1], "unclean")
    settled = {path for path in directory.glob("*-*[0-9]") if list_partition(LOCAL, path).is_settled}
    files: dict[Path, object] = {}

    def noting(fs: FileSystem, directory: Path, base_offset: int, **options: Any) -> SegmentWalk:
        files[directory] = options["file"]
        return walk_segment(fs, directory, base_offset, **options)

    monkeypatch.setattr(loader, "walk_segment", noting)
    assert loaded(directory)
    read = {directory for directory, file in files.items() if file is not None}
    assert settled - {directory / "__cluster_metadata-0"} <= read


@pytest.mark.parametrize(("kind", "wanted"), [("clean", False), ("unclean", True)])
def test_a_survey_has_the_ends_of_indexes_after_a_kill(
    golden_copy: GoldenFactory, monkeypatch: pytest.MonkeyPatch, kind: str, wanted: bool
) -> None:
    asked = set()

    def noting(fs: FileSystem, directories: Sequence[Path], *, index_ends: bool) -> list[PartitionListing | None]:
        asked.add(index_ends)
        return survey(fs, directories, index_ends=index_ends)

    monkeypatch.setattr(loading, "survey", noting)
    assert loaded(golden_copy(KRAFT_SETS[-1], kind))
    assert asked == {wanted}
