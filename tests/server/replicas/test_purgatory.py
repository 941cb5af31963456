"""Delayed operations of a partition: conditions, timeouts, and errors."""

from __future__ import annotations

import pytest

from server.replicas.replica_harness import ReplicaHarness, soon
from tidelog.server.replicas.purgatory import wait_until


def test_an_error_of_one_condition_fails_its_operation_alone(harness: ReplicaHarness) -> None:
    harness.create("t")
    partition = harness.partition()

    def broken(_changed: object) -> bool:
        raise RuntimeError("a bug")

    async def scenario() -> None:
        failing, other = [
            await soon(wait_until(condition, (partition,), harness.timers, 1000))
            for condition in (broken, lambda _changed: partition.leader_epoch == 1)
        ]
        partition.check_delayed()
        with pytest.raises(RuntimeError, match="a bug"):
            await failing
        assert not other.done()
        partition.leader_epoch = 1
        partition.check_delayed()
        assert await other

    harness.run(scenario())
    assert not harness.partition().purgatory
