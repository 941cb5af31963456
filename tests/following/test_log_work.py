"""The work of a follower on its log while a move between log directories replaces the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storage.manager.manager_home import DiskHome, content, fill
from tidelog.following.log_work import LogWork, check_batches, run_work
from tidelog.model import TopicPartition
from tidelog.replication.follower_commands import LogCommand, TruncateFully, TruncateTo, TruncationCause
from tidelog.storage.log.partition_log import PartitionLog

T0 = TopicPartition("t", 0)


@pytest.fixture
def home() -> Iterator[DiskHome]:
    made = DiskHome()
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("name", "command", "end"),
    [
        ("truncate_to", TruncateTo(offset=30, cause=TruncationCause.DIVERGING_EPOCH, high_watermark=0), 30),
        ("truncate_fully_and_start_at", TruncateFully(offset=500), 500),
    ],
)
def test_a_truncation_is_repeated_on_the_new_log(
    home: DiskHome, monkeypatch: pytest.MonkeyPatch, name: str, command: LogCommand, end: int
) -> None:
    manager = home.start()
    manager.prefer(T0, home.paths[0])
    old = manager.get_or_create(T0)
    fill(old, 10)
    manager.move(T0, home.paths[1])
    truncate: Callable[..., object] = getattr(PartitionLog, name)

    def late(log: PartitionLog, *arguments: int, **options: int) -> object:
        if log is old and manager.require(T0) is old:
            assert manager.run_move(T0)
        return truncate(log, *arguments, **options)

    monkeypatch.setattr(PartitionLog, name, late)
    work = [LogWork(T0, old, [command])]
    (outcome,) = run_work(manager, work, check_batches(work), sets_high_watermark=True)
    assert outcome.error is None
    new = manager.require(T0)
    assert new is not old
    assert new.end_offset == end
    assert len(content(new)) < len(content(old))
