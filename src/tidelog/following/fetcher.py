"""A fetcher: a task that fetches partitions of one leader in turns, in a fetch session on a connection of its own.

It sends a Fetch and hands the response to the rules of each partition's follower. The work on all their logs is one
pass, in a background thread unless it is short. During the pass of a large response the fetcher fetches its other
partitions, if records of them are missing. So receiving and appending overlap, and a partition never has two fetches at
the same time. A fetcher has at most two responses in memory.

======================================  ==============================================================================
event                                   effect
======================================  ==============================================================================
a request fails                         its partitions back off. Each error has a line in the log once, until a
                                        request succeeds again, which has a line too. An error that no repetition ends,
                                        such as a wrong password, is logged as an error
no partition can be fetched             the fetcher waits for ``wake``, or for the end of a back-off
``stop``                                the pass in progress ends, and a fetch in progress is given up
another error                           the task ends, and ``on_failure`` gets the error
======================================  ==============================================================================

Thread rule: the event loop only, apart from the passes. Source: Kafka's ``AbstractFetcherThread``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic

from tidelog.client.model.errors import ClientError
from tidelog.following.command_runner import CommandRunner, Pending
from tidelog.following.fetch_exchange import FetchAnswer, FetchExchange, Wanted
from tidelog.following.followed_replica import ReplicaT
from tidelog.following.log_work import SHORT_PASS_BYTES
from tidelog.model import TopicPartition
from tidelog.replication.follower_events import FetchPosition
from tidelog.runtime.repeated_errors import RepeatedErrors

_IDLE_S: Final = 0.5
"""The longest wait of a fetcher without partitions to fetch."""

_log = logging.getLogger(__name__)


def _no_failures() -> RepeatedErrors:
    return RepeatedErrors(_log, "Fetches from %s fail, and are tried again: %s")


async def _at_once() -> None:
    """Begin a fetch without a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSetup(Generic[ReplicaT]):
    exchange: FetchExchange
    runner: CommandRunner[ReplicaT]
    now_ms: Callable[[], int]
    max_wait_ms: int
    on_failure: Callable[[BaseException], None]
    """Called with an error that ends the fetcher."""
    on_answer: Callable[[FetchAnswer], None]
    """Called with each response, before the followers get it."""
    before_fetch: Callable[[], Awaitable[None]] = _at_once
    gives_up: Callable[[ClientError], bool] = lambda _error: False
    """Returns True for a failed request that must end the fetcher."""


class Fetcher(Generic[ReplicaT]):
    def __init__(self, setup: FetcherSetup[ReplicaT]) -> None:
        """Start the task. Without partitions it waits."""
        self.replicas: dict[TopicPartition, ReplicaT] = {}
        self._setup = setup
        self._wake = asyncio.Event()
        self._is_stopped = False
        self._is_fetching = False
        self._failures = _no_failures()
        """The failures since the last response."""
        self._writing: asyncio.Task[None] | None = None
        """The work on the last response with records."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def failures(self) -> int:
        """The failed requests since the last response."""
        return self._failures.counts.total()

    @property
    def is_fetching(self) -> bool:
        """True while a request is under way."""
        return self._is_fetching

    def wake(self) -> None:
        """Look at the partitions again, after a change."""
        self._wake.set()

    def stop(self) -> None:
        """End the task after the pass in progress. A fetch in progress is given up."""
        self._is_stopped = True
        self._wake.set()
        if self._is_fetching:
            self.task.cancel()

    async def _run(self) -> None:
        try:
            try:
                while not self._is_stopped:
                    await self._fetch_once()
            finally:
                await self._end_writing()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._setup.on_failure(error)

    async def _fetch_once(self) -> None:
        now_ms = self._setup.now_ms()
        asked = {
            replica: position
            for replica in list(self.replicas.values())
            if (position := replica.wanted_position(now_ms)) is not None
        }
        if self._writing is not None and not any(replica.is_behind for replica in asked):
            await self._end_writing()
        elif not asked:
            self._wake.clear()
            await self._wait_until_ready()
        elif (answer := await self._fetch(asked)) is not None:
            await self._take(asked, answer)

    async def _fetch(self, asked: Mapping[ReplicaT, FetchPosition]) -> FetchAnswer | None:
        """Return the response, or None after a failure that the followers know of.

        A partition that is being written is asked for with the next request, so that request is not to wait.
        """
        setup = self._setup
        wanted = {replica.partition: Wanted(position, replica.topic_id) for replica, position in asked.items()}
        self._is_fetching = True
        try:
            await setup.before_fetch()
            answer = await setup.exchange.fetch(wanted, max_wait_ms=setup.max_wait_ms if self._writing is None else 0)
        except ClientError as error:
            if setup.gives_up(error):
                raise
            self._is_fetching = False
            level = logging.WARNING if error.is_retriable else logging.ERROR
            self._failures.note(setup.exchange.leader, error, level)
            now_ms, code = setup.now_ms(), error.code
            await setup.runner.execute(
                [(replica, replica.follower.request_failed(at, now_ms, code)) for replica, at in asked.items()]
            )
            return None
        finally:
            self._is_fetching = False
        if self._failures.counts:
            leader, failures = setup.exchange.leader, self._failures.counts.total()
            _log.info("Fetches from %s succeed again; %d failed", leader, failures)
            self._failures = _no_failures()
        return answer

    async def _take(self, asked: Mapping[ReplicaT, FetchPosition], answer: FetchAnswer) -> None:
        """Hand a response to the followers, and begin the work on the logs after the work in progress.

        Little work is not worth a task of its own.
        """
        self._setup.on_answer(answer)
        now_ms, is_empty = self._setup.now_ms(), answer.size == 0
        pending: list[Pending[ReplicaT]] = []
        for replica, position in asked.items():
            fetched = answer.partitions.get(replica.partition)
            pending.append((replica, replica.received(position, fetched, is_empty=is_empty, now_ms=now_ms)))
        await self._end_writing()
        work = self._setup.runner.execute(pending)
        if answer.size <= SHORT_PASS_BYTES:
            await work
        else:
            self._writing = asyncio.get_running_loop().create_task(work)

    async def _end_writing(self) -> None:
        """Wait for the work in progress. Raise its error."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    async def _wait_until_ready(self) -> None:
        now_ms = self._setup.now_ms()
        ends = [end for replica in self.replicas.values() if (end := replica.ready_at_ms) is not None]
        wait_s = min([_IDLE_S, *(max(1, end - now_ms) / 1000 for end in ends)])
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            pass
