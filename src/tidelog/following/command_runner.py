"""The execution of followers' commands: one pass over the logs, then the requests, then the commands that follow.

``Executor`` is the caller's part of it. A pass does the work of all partitions of one response in one turn of a
background thread, so responses of thousands of partitions cost one switch of threads.
Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from tidelog.following.followed_replica import FollowedReplica, ReplicaT
from tidelog.following.log_work import LogOutcome, LogWork
from tidelog.model import TidelogError
from tidelog.replication.follower_commands import BackOff, Command, Commands, Fail, ListOffsets, LogCommand
from tidelog.replication.follower_events import ListedPartition

ExecutedT = TypeVar("ExecutedT", bound=FollowedReplica, contravariant=True)
Pending = tuple[ReplicaT, Commands]


class Executor(Protocol[ExecutedT]):
    """The caller's part of the execution."""

    def prepare(self, replica: ExecutedT, commands: Sequence[LogCommand], /) -> None:
        """Report the commands for people. Raise TidelogError if they must not be executed."""
        ...

    async def run_pass(self, work: Sequence[LogWork], /) -> Sequence[LogOutcome]:
        """Execute commands for logs in a background thread."""
        ...

    def wrote(self, replica: ExecutedT, outcome: LogOutcome, /) -> None:
        """Note the result of a pass for one replica, before its follower goes on."""
        ...

    async def list_offset(self, replica: ExecutedT, command: ListOffsets, /) -> ListedPartition:
        """Ask the replica's leader for an offset. A failed request is an error of the result."""
        ...

    def backed_off(self, replica: ExecutedT, command: BackOff, /) -> None: ...

    def failed(self, replica: ExecutedT, command: Fail, /) -> None: ...


class CommandRunner(Generic[ReplicaT]):
    def __init__(self, executor: Executor[ReplicaT], now_ms: Callable[[], int]) -> None:
        self._executor = executor
        self._now_ms = now_ms
        self._writing: dict[ReplicaT, asyncio.Future[None]] = {}
        """The replicas in a pass. The future ends with the pass."""

    async def execute(self, pending: Sequence[Pending[ReplicaT]]) -> None:
        """Execute commands, and the commands that follow from these. Raise the errors of ``run_pass``."""
        while pending:
            work: list[tuple[ReplicaT, list[LogCommand]]] = []
            listings: list[tuple[ReplicaT, ListOffsets]] = []
            for replica, commands in pending:
                written: list[LogCommand] = []
                for command in commands:
                    self._sort(replica, command, written, listings)
                if written:
                    work.append((replica, written))
            pending = await self._write(work) + await self._list(listings)

    async def written(self, replica: ReplicaT) -> None:
        """Return once no pass changes the replica's log. Its follower has the report of the last one then."""
        while (writing := self._writing.get(replica)) is not None:
            await asyncio.shield(writing)

    def _sort(
        self,
        replica: ReplicaT,
        command: Command,
        written: list[LogCommand],
        listings: list[tuple[ReplicaT, ListOffsets]],
    ) -> None:
        match command:
            case ListOffsets():
                listings.append((replica, command))
            case BackOff():
                self._executor.backed_off(replica, command)
            case Fail():
                self._executor.failed(replica, command)
            case _:
                written.append(command)

    async def _write(self, work: Sequence[tuple[ReplicaT, list[LogCommand]]]) -> list[Pending[ReplicaT]]:
        allowed: list[ReplicaT] = []
        passed: list[LogWork] = []
        following: list[Pending[ReplicaT]] = []
        for replica, commands in work:
            if replica.follower.leader is None:  # it was stopped meanwhile, and may be a leader now
                following.append((replica, replica.follower.written(self._now_ms())))
                continue
            try:
                self._executor.prepare(replica, commands)
                passed.append(LogWork(replica.partition, replica.log, commands))
            except TidelogError as error:
                following.append((replica, replica.follower.write_failed(error, self._now_ms())))
            else:
                allowed.append(replica)
        if not allowed:
            return following
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing.update(dict.fromkeys(allowed, end))
        try:
            outcomes = await self._executor.run_pass(passed)
            for replica, outcome in zip(allowed, outcomes, strict=True):
                self._executor.wrote(replica, outcome)
                follower, now_ms = replica.follower, self._now_ms()
                reported = (
                    follower.written(now_ms) if outcome.error is None else follower.write_failed(outcome.error, now_ms)
                )
                following.append((replica, reported))
        finally:
            for replica in allowed:
                self._writing.pop(replica, None)
            end.set_result(None)
        return following

    async def _list(self, listings: Sequence[tuple[ReplicaT, ListOffsets]]) -> list[Pending[ReplicaT]]:
        async def list_one(replica: ReplicaT, command: ListOffsets) -> Pending[ReplicaT]:
            listed = await self._executor.list_offset(replica, command)
            return replica, replica.follower.listed(command, listed, self._now_ms())

        return list(await asyncio.gather(*(list_one(*listing) for listing in listings)))
