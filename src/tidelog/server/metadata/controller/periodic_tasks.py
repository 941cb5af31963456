"""The work that a controller does at intervals, and the part of it that every controller has.

=================  ===========================================  =====================================================
task               interval                                     effect
=================  ===========================================  =====================================================
balance            ``leader.imbalance.check.interval.seconds``  preferred replicas lead again, if
                                                                ``auto.leader.rebalance.enable`` is set
unclean elections  ``unclean.leader.election.interval.ms``      partitions without a leader get one, if their topics
                                                                allow unclean elections
=================  ===========================================  =====================================================

Thread rule: the event loop only. Source: Kafka's ``QuorumController`` (``PeriodicTask``), ``KafkaController``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TidelogError
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import TimerHandle, Timers

Step = Callable[[], Awaitable[bool]]
"""A part of the work. It returns True if there may be more."""

_LATE_INTERVALS: Final = 4
"""The delay of a task in intervals from which on it is left out, if it ``skips_if_late``."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    name: str
    interval_ms: int
    step: Step
    skips_if_late: bool = False


def election_tasks(config: BrokerConfig, *, elect_leaderless: Step, balance_leaders: Step) -> list[PeriodicTask]:
    """Return the tasks of elections, for the two rules of ``periodic_elections``."""
    tasks = [
        PeriodicTask(
            name="elect leaders uncleanly",
            interval_ms=config.number("unclean.leader.election.interval.ms"),
            step=elect_leaderless,
        )
    ]
    if config.flag("auto.leader.rebalance.enable"):
        interval_ms = 1000 * config.number("leader.imbalance.check.interval.seconds")
        tasks.append(PeriodicTask(name="balance leaders", interval_ms=interval_ms, step=balance_leaders))
    return tasks


class RunningTask:
    """A task that runs at its interval from ``start`` to ``stop``."""

    def __init__(self, task: PeriodicTask, timers: Timers, spawn: Spawn) -> None:
        self._task = task
        self._timers = timers
        self._spawn = spawn
        self._timer: TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        self._schedule()

    def stop(self) -> None:
        """End the task; idempotent."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if not self._is_stopped:
            due_ms = self._timers.monotonic_ms() + self._task.interval_ms
            self._timer = self._timers.call_later(self._task.interval_ms, lambda: self._begin(due_ms))

    def _begin(self, due_ms: int) -> None:
        late_ms = self._timers.monotonic_ms() - due_ms
        if self._task.skips_if_late and late_ms > _LATE_INTERVALS * self._task.interval_ms:
            _log.warning("The event loop was %d ms late, so heartbeats count before: %s", late_ms, self._task.name)
            self._schedule()
        else:
            self._spawn(self._run())

    async def _run(self) -> None:
        try:
            while await self._task.step():
                pass
        except TidelogError as error:
            _log.warning("The controller cannot %s: %s", self._task.name, error)
        finally:
            self._schedule()
