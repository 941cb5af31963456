"""The controller's own work. Kafka: QuorumControllerTest, ReplicationControlManagerTest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from server.controller.controller_harness import ControllerHome, RemoteBroker, create_topic
from server.jumping_clock import JumpingClock
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.controller.periodic_tasks import PeriodicTask, RunningTask
from tidelog.server.metadata.partition_state import NO_LEADER


class TestBalance:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"leader_imbalance_check_interval_seconds": "1"}

    def test_a_preferred_replica_leads_again(
        self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker
    ) -> None:
        broker.join()
        other.join()
        create_topic(home, "t", [1, 2])
        broker.heartbeat(want_fence=True)
        assert home.partition("t").leader == 2
        broker.heartbeat()
        members = [(2, other.epoch), (1, broker.epoch)]
        assert other.alter_partition("t", members).error_code == ErrorCode.NONE
        home.wait_for(lambda: home.node.metadata.image.topics["t"].partitions[0].leader == 1)


class TestUncleanElections:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return {"unclean_leader_election_interval_ms": "100"}

    def test_a_partition_gets_a_leader_once_its_topic_allows_it(
        self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker
    ) -> None:
        broker.join()
        other.join()
        create_topic(home, "t", [1, 2])
        assert broker.alter_partition("t", [(1, broker.epoch)]).error_code == ErrorCode.NONE
        # Broker 2 is not eligible: one replica in sync satisfies min.insync.replicas.
        broker.heartbeat(want_fence=True)
        assert home.partition("t").leader == NO_LEADER
        change = {"name": "unclean.leader.election.enable", "config_operation": 0, "value": "true"}
        (result,) = other.client.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            resources=[{"resource_type": 2, "resource_name": "t", "configs": [change]}],
            validate_only=False,
        ).responses
        assert result.error_code == ErrorCode.NONE
        home.wait_for(lambda: home.node.metadata.image.topics["t"].partitions[0].leader == 2)
        assert home.partition("t").is_recovering


def test_configs_of_any_broker_are_kept(home: ControllerHome, broker: RemoteBroker) -> None:
    change = {"name": "log.cleaner.threads", "config_operation": 0, "value": "2"}
    broker.join()
    for name, code in (
        ("1", ErrorCode.NONE),
        ("", ErrorCode.NONE),
        ("7", ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("seven", ErrorCode.INVALID_REQUEST),
    ):
        (result,) = broker.client.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            resources=[{"resource_type": 4, "resource_name": name, "configs": [change]}],
            validate_only=False,
        ).responses
        assert result.error_code == code, name
    assert len(home.node.metadata.image.configs) >= 2


class LateTimers:
    """Timers whose callbacks a test calls by itself, as late as it wants."""

    def __init__(self) -> None:
        self.now = 0
        self.waiting: list[Callable[[], object]] = []

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def call_later(self, _delay_ms: int, callback: Callable[[], object]) -> LateTimers:
        self.waiting.append(callback)
        return self

    def cancel(self) -> None:
        self.waiting.clear()

    def run(self, after_ms: int) -> None:
        """Call the waiting callbacks, ``after_ms`` later."""
        self.now += after_ms
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


@pytest.mark.parametrize(("skips_if_late", "runs"), [(True, [100, 10_200]), (False, [100, 10_100, 10_200])])
def test_a_check_after_a_pause_waits_for_heartbeats(skips_if_late: bool, runs: list[int]) -> None:
    timers = LateTimers()
    times: list[int] = []

    async def step() -> bool:
        times.append(timers.now)
        return False

    def spawn(work: Coroutine[Any, Any, None]) -> Any:
        asyncio.run(work)

    running = RunningTask(
        PeriodicTask(name="check", interval_ms=100, step=step, skips_if_late=skips_if_late), timers, spawn
    )
    running.start()
    timers.run(after_ms=100)
    timers.run(after_ms=10_000)  # the process was stopped meanwhile
    timers.run(after_ms=100)
    assert times == runs
    running.stop()
    assert timers.waiting == []


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
def test_a_clock_that_jumps_fences_no_broker(tmp_path: Path, ahead_ms: int) -> None:
    home, clock = ControllerHome(tmp_path), JumpingClock()
    home.clock = clock
    with home, RemoteBroker(home, 1) as broker:
        broker.join()
        clock.ahead_ms = ahead_ms
        assert not home.run(home.node.quorum_controller.remote_brokers.fence_stale)
        assert not home.is_fenced(1)
        assert not broker.heartbeat().is_fenced
