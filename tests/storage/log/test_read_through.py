"""A full log, read in chunks: each chunk moves forward, or an error is raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, batch
from tidelog.model import CorruptRecordError
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

LARGE = 1 << 20


@pytest.fixture
def log(tmp_path: Path) -> Any:
    request = OpenRequest(
        fs=LOCAL, directory=tmp_path / "t-0", clock=ManualClock(BASE_TIME), config=LogConfig(), clean_shutdown=True
    )
    log = PartitionLog.open(request)
    for first in range(0, 30, 3):
        log.append(bytearray(batch(first, [b"x" * 50] * 3, timestamp=BASE_TIME)))
    yield log
    log.close_handlers()


def offsets(log: PartitionLog, start: int, end: int, max_bytes: int) -> list[tuple[int, int]]:
    """Return the first and the last offset of each chunk."""
    chunks = list(log.read_through(start, end, max_bytes))
    return [(int(table.base_offset[0]), int(table.last_offset[-1])) for _data, table in chunks]


def test_all_of_it_at_once_or_batch_by_batch(log: PartitionLog) -> None:
    assert offsets(log, 0, 30, LARGE) == [(0, 29)]
    assert offsets(log, 0, 30, 1) == [(first, first + 2) for first in range(0, 30, 3)]


def test_from_within_a_batch_up_to_within_another(log: PartitionLog) -> None:
    assert offsets(log, 4, 10, 1) == [(3, 5), (6, 8), (9, 11)]
    assert offsets(log, 30, 30, LARGE) == []


def test_what_compaction_has_left_nothing_of_ends_it(log: PartitionLog) -> None:
    assert offsets(log, 0, 31, 400)[-1][1] == 29


def test_a_read_that_does_not_come_forward_is_an_error(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    first = log.read
    monkeypatch.setattr(log, "read", lambda limits: first(_at_the_start(limits)))
    with pytest.raises(CorruptRecordError, match="the log continues to offset 30, but no complete batch") as caught:
        offsets(log, 0, 30, 1)
    assert caught.value.offset == 3


def _at_the_start(limits: Any) -> Any:
    return type(limits)(start_offset=0, max_bytes=limits.max_bytes, isolation=limits.isolation)
