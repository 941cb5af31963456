"""A follower's append of a single batch leaves the same files as the append of a set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, batch, data, marker, plain
from storage.log.log_harness import LogHarness
from tidelog.storage.log.append import batch_write, follower_write
from tidelog.storage.producer import CachedBatch

BATCHES = (
    plain(0, 3),
    plain(3, 1),
    batch(4, [b"a", b"b"], producer_id=5, sequence=0, timestamp=BASE_TIME + 9),
    batch(6, [b"c"], producer_id=5, sequence=2, timestamp=BASE_TIME + 7),
    data(7, 2),
    plain(9, 1),
    marker(10, committed=False),
    plain(14, 2),  # compaction has removed offsets 11 to 13
    batch(16, [b"d"], epoch=3, timestamp=BASE_TIME + 20),
    batch(17, [b"e"], epoch=3, timestamp=BASE_TIME + 20),
    batch(18, [b"x" * 300], epoch=3),
    batch(19, [b"y" * 300], epoch=4, timestamp=BASE_TIME + 30),
    batch(20, [b"z"], epoch=4, timestamp=BASE_TIME + 30),
)


def _files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.name != "partition.metadata"}


def _followed(directory: Path) -> dict[str, bytes]:
    """Append the batches one by one as a follower, and return the closed log's files."""
    harness = LogHarness(directory)
    log = harness.open(segment_bytes=500, index_interval_bytes=100)
    for one in BATCHES:
        log.append_as_follower(one, 4)
    log.update_high_watermark(log.end_offset)
    harness.close()
    return _files(directory)


def test_one_batch_is_written_like_a_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick: list[object] = []
    single = batch_write.write_single

    def noted(*arguments: Any) -> CachedBatch | None:
        quick.append(arguments[2])
        return single(*arguments)

    monkeypatch.setattr(follower_write, "write_single", noted)
    by_one = _followed(tmp_path / "one")
    assert quick == [3, 5, 6, 8, 10, 17, 20], "last offsets of batches that begin no segment or epoch"
    monkeypatch.setattr(follower_write, "fits_fast_path", lambda *_: False)
    by_set = _followed(tmp_path / "set")
    assert len(quick) == 7
    assert by_one == by_set
    assert sum(name.endswith(".log") for name in by_one) > 2
