"""Deleted segments and snapshots: renamed at once, readable for a while, then removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import plain, write_segment
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.deleted_segments import DeletedSegments
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.producer_state import SnapshotFiles
from tidelog.storage.segment.segment import LogSegment


@pytest.fixture
def deleted() -> DeletedSegments:
    return DeletedSegments(LOCAL)


def segment_at(directory: Path, base: int) -> LogSegment:
    write_segment(directory, base, [plain(base)])
    return LogSegment(LOCAL, directory, base, LogConfig().segment_limits, now_ms=0)


def suffixes(directory: Path) -> set[str]:
    return {"".join(path.suffixes) for path in directory.iterdir()}


def test_a_segment_is_read_until_it_is_due(deleted: DeletedSegments, tmp_path: Path) -> None:
    first, second = segment_at(tmp_path, 0), segment_at(tmp_path, 10)
    found = first.read(0, max_bytes=1 << 20)
    assert found is not None
    deleted.add([first], 1000)
    deleted.add([second], 2000)
    assert suffixes(tmp_path) == {f".{kind}.deleted" for kind in ("log", "index", "timeindex")}
    assert found.data() == plain(0)
    assert (len(deleted), deleted.next_due_ms) == (2, 1000)
    assert deleted.remove_due(999) == 0
    assert deleted.remove_due(1000) == 1
    assert {path.name[:20] for path in tmp_path.iterdir()} == {f"{10:020d}"}
    assert (deleted.remove_due(2000), deleted.remove_due(9000), deleted.next_due_ms) == (1, 0, None)
    assert not list(tmp_path.iterdir())


def test_a_snapshot_goes_with_its_segment(deleted: DeletedSegments, tmp_path: Path) -> None:
    snapshots = SnapshotFiles(LOCAL, tmp_path, ())
    snapshots.write(5, b"a state")
    deleted.add_files([snapshots.forget(5)], 1000)
    assert [path.name for path in tmp_path.iterdir()] == [f"{5:020d}.snapshot.deleted"]
    assert (snapshots.latest, len(deleted)) == (None, 1)
    deleted.remove_due(1000)
    assert not list(tmp_path.iterdir())


def test_a_snapshot_that_is_gone_already(deleted: DeletedSegments, tmp_path: Path) -> None:
    snapshots = SnapshotFiles(LOCAL, tmp_path, ())
    snapshots.write(5, b"a state")
    snapshots.path(5).unlink()
    deleted.add_files([snapshots.forget(5), snapshots.forget(6)], 1000)
    assert (snapshots.latest, len(deleted)) == (None, 0)


def test_an_end_before_they_are_due_leaves_them_to_the_next_loading(deleted: DeletedSegments, tmp_path: Path) -> None:
    segment = segment_at(tmp_path, 0)
    deleted.add([segment], 1000)
    deleted.close_handlers()
    assert (len(deleted), deleted.remove_due(9000)) == (0, 0)
    assert suffixes(tmp_path) == {f".{kind}.deleted" for kind in ("log", "index", "timeindex")}
