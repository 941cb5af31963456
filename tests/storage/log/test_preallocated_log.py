"""A log with preallocated segments: rolled, closed, killed, and read while its writer runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import plain
from tidelog.api import LogConfig, open_log
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.recovery.directory_recovery import recover

SEGMENT_BYTES = 100_000
CONFIG = LogConfig(preallocate=True, segment_bytes=SEGMENT_BYTES)


def log_sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(directory.glob("*.log"))]


def offsets(directory: Path) -> list[int]:
    view = LogView(LOCAL, directory)
    chunks = view.columns(view.range(until="log_end"))
    return [record.offset for chunk in chunks for record in iter_records(chunk.columns)]


def test_only_the_active_segment_has_room(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    with open_log(directory, config=CONFIG) as log:
        assert log_sizes(directory) == [SEGMENT_BYTES]
        for _ in range(30):
            log.append_batch([bytes(1000)] * 10)
        sizes = log_sizes(directory)
        assert len(sizes) == 4
        assert sizes[-1] == SEGMENT_BYTES
        assert max(sizes[:-1]) < SEGMENT_BYTES
        assert offsets(directory) == list(range(300))
        assert sum(1 for _ in log.records()) == 300
    assert max(log_sizes(directory)) < SEGMENT_BYTES
    assert offsets(directory) == list(range(300))


@pytest.mark.parametrize("batches", [0, 1, 25])
def test_after_a_kill_the_zeros_are_cut(tmp_path: Path, batches: int) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    content = b"".join(plain(10 * number) for number in range(batches))
    (directory / f"{0:020d}.log").write_bytes(content.ljust(SEGMENT_BYTES, b"\0"))
    assert offsets(directory) == list(range(10 * batches))
    recover(tmp_path, now_ms=0)
    assert log_sizes(directory) == [len(content)]
    assert offsets(directory) == list(range(10 * batches))
    with open_log(directory, config=CONFIG) as log:
        assert log.append_batch([b"x"]) == range(10 * batches, 10 * batches + 1)
