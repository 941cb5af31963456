"""The load of ``__transaction_state`` by a new leader: it waits until all records are replicated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from server.transactions.coordinator_harness import START, CoordinatorHarness
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.runtime.timers import LoopTimers
from tidelog.server.replicas.purgatory import Purgatory
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.server.transactions.settings import TransactionSettings
from tidelog.server.transactions.state_log import ReplicatedStateLog
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.manual_clock import ManualClock


class LaggingLeader:
    """The leader of a partition whose high watermark a test sets."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.high_watermark = 0
        self.is_leading = True
        self.purgatory = Purgatory()

    def leading_log(self) -> Any:
        if not self.is_leading:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return SimpleNamespace(high_watermark=self.high_watermark)


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[LaggingLeader]:
    """Yield a leader with two records of one transactional id."""
    harness = CoordinatorHarness(tmp_path)
    harness.initialize()
    harness.initialize()
    yield LaggingLeader(harness.state_partition().log)
    harness.close()


async def loading(leader: LaggingLeader, *, timeout_ms: int = 60_000) -> asyncio.Task[dict[str, Any]]:
    """Begin a load, and return once it waits or is over."""

    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    log = ReplicatedStateLog(
        cast(ReplicaManager, SimpleNamespace(partition=lambda _name: leader)),
        timers=LoopTimers(asyncio.get_running_loop(), ManualClock(START)),
        in_thread=cast(Callable[..., Awaitable[Any]], at_once),
        settings=TransactionSettings(append_timeout_ms=timeout_ms),
    )
    task = asyncio.ensure_future(log.load(0))
    for _ in range(20):
        await asyncio.sleep(0)
    return task


def test_a_load_waits_for_the_replication_of_its_last_record(leader: LaggingLeader) -> None:
    async def work() -> None:
        assert leader.log.end_offset == 2
        leader.high_watermark = 1
        load = await loading(leader)
        leader.purgatory.check()
        assert not load.done()
        leader.high_watermark = 2
        leader.purgatory.check()
        assert set(await load) == {"orders"}
        assert len(leader.purgatory) == 0

    asyncio.run(work())


def test_it_waits_longer_than_one_timeout(leader: LaggingLeader) -> None:
    async def work() -> None:
        load = await loading(leader, timeout_ms=1)
        done, _ = await asyncio.wait((load,), timeout=0.05)
        assert not done
        leader.high_watermark = 2
        assert set(await load) == {"orders"}

    asyncio.run(work())


def test_a_leader_that_resigns_does_not_load(leader: LaggingLeader) -> None:
    async def work() -> None:
        load = await loading(leader)
        leader.is_leading = False
        leader.purgatory.check()
        with pytest.raises(ApiError):
            await load

    asyncio.run(work())


def test_a_replicated_log_is_loaded_at_once(leader: LaggingLeader) -> None:
    async def work() -> None:
        leader.high_watermark = 2
        assert (await loading(leader)).done()

    asyncio.run(work())
