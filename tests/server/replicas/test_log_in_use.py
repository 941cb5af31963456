"""The log of a partition that a move between log directories replaces."""

from __future__ import annotations

from storage.manager.manager_home import DiskHome, fill
from tidelog.model import TopicPartition
from tidelog.server.replicas.log_in_use import LogInUse
from tidelog.storage.log.partition_log import PartitionLog

T0 = TopicPartition("t", 0)


def test_a_change_is_repeated_on_the_new_log() -> None:
    home = DiskHome()
    manager = home.start()
    old = manager.get_or_create(T0)
    fill(old, 2)
    (target,) = set(home.paths) - {old.directory.parent}
    manager.move(T0, target)

    def change(log: PartitionLog) -> PartitionLog:
        if log is old:
            assert manager.run_move(T0)
        log.begin_epoch(5)
        return log

    new = LogInUse(manager, T0).change(change)
    assert new is manager.require(T0)
    assert new is not old
    assert new.epochs.latest == 5
    home.stop()
