"""The copying of partitions: fetchers for their leaders, the work on their logs, and events for people.

Each leader has a few fetchers, and the partitions of a topic are spread over them. A fetcher sends a Fetch and hands
the response to the rules of each partition's follower. A background thread does the work on all their logs in one pass.
Meanwhile the fetcher fetches its other partitions, if records of them are missing. So receiving and appending overlap,
and a partition never has two fetches at the same time. A fetcher has at most two responses in memory.

======================================  ==============================================================================
event                                   effect
======================================  ==============================================================================
a leader changes                        its partitions move to the new leader's fetchers
a request fails, or a leadership error  the partition waits, and ``needs_metadata`` is set
a truncation                            is decided by ``protection``, and reported
a partition fails                       is reported; a new leader epoch lets it try again
the disk fails, or a limit is reached   all fetchers end, and ``wait`` raises the error
======================================  ==============================================================================

Thread rule: the event loop only, but for the passes.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from tidelog.client.model.errors import ClientError
from tidelog.mirroring.run.early_flush import EarlyFlush
from tidelog.mirroring.run.limits import DiskLimit, RateLimit
from tidelog.mirroring.run.partition_copy import PartitionCopy
from tidelog.mirroring.run.protection import require_proven
from tidelog.mirroring.source.fetch_exchange import FetchAnswer, FetchExchange
from tidelog.mirroring.source.source_cluster import SourceCluster
from tidelog.mirroring.target.log_pass import LogOutcome, LogWork, run_pass
from tidelog.mirroring.target.mirror_directory import MirrorDirectory
from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.follower import Phase
from tidelog.replication.follower_commands import (
    Append,
    BackOff,
    Command,
    Fail,
    ListOffsets,
    LogCommand,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
)
from tidelog.replication.follower_events import FetchPosition, FollowedLeader, ListedPartition
from tidelog.runtime import Clock
from tidelog.runtime.executor import InThread

_LOG_COMMANDS = (Append, TruncateTo, TruncateFully, RaiseLogStart, SetHighWatermark)
_IDLE_S = 0.5
"""The longest wait of a fetcher without partitions to fetch."""

_log = logging.getLogger(__name__)

Pending = tuple[PartitionCopy, tuple[Command, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyingSetup:
    source: SourceCluster
    directory: MirrorDirectory
    clock: Clock
    in_thread: InThread
    rate: RateLimit
    disk: DiskLimit
    fetchers: int
    """The fetchers of each leader."""
    max_wait_ms: int
    max_bytes: int
    accepts_loss: bool
    report: Callable[[str], None]
    """Gets a sentence for people about each event."""


class Copying:
    def __init__(self, setup: CopyingSetup) -> None:
        self.setup = setup
        self.copies: dict[TopicPartition, PartitionCopy] = {}
        self.needs_metadata = asyncio.Event()
        self.has_changed = asyncio.Event()
        """Set when a partition has got records, has failed, or is complete."""
        self.copied_bytes = 0
        self.ids: dict[str, uuid.UUID] = {}
        """The topic ids of the copies."""
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}
        self._flush = EarlyFlush(setup.in_thread, self.fail)
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- the partitions ---

    def add(self, copy: PartitionCopy, topic_id: uuid.UUID) -> None:
        self.copies[copy.partition] = copy
        self.ids[copy.partition.topic] = topic_id

    def remove(self, topic: str) -> None:
        """Forget the partitions of a topic."""
        self.ids.pop(topic, None)
        for partition in [one for one in self.copies if one.topic == topic]:
            self._assign(self.copies.pop(partition), None)

    async def follow(self, leaders: Mapping[TopicPartition, FollowedLeader]) -> None:
        """Follow the leaders of the newest metadata. Their epochs are in the copy's metadata already."""
        pending: list[Pending] = []
        for partition, leader in leaders.items():
            copy = self.copies[partition]
            failed = copy.has_failed
            commands = copy.follower.follow(leader)
            if failed and not copy.has_failed:
                copy.error = None
            pending.append((copy, commands))
            self._assign(copy, leader.leader_id if leader.leader_id >= 0 else None)
        await self.execute(pending)

    def wake(self) -> None:
        """Let the fetchers look at their partitions again, after a change of bounds."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    # --- the end ---

    async def stop(self) -> None:
        """End the fetchers. Passes and flushes in progress end first."""
        fetchers, self._fetchers = self._fetchers, {}
        for fetcher in fetchers.values():
            fetcher.stop()
        await asyncio.gather(*(fetcher.task for fetcher in fetchers.values()), return_exceptions=True)
        await self._flush.end()
        if self._failure.done():
            self._failure.exception()

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""
        if not self._failure.done():
            self._failure.set_exception(error)
        self.has_changed.set()

    def require_healthy(self) -> None:
        """Raise the error that has ended the run, if any."""
        if self._failure.done():
            self._failure.result()

    # --- commands ---

    async def execute(self, pending: Sequence[Pending]) -> None:
        """Execute the commands of followers, and the commands that follow from these."""
        while pending:
            following: list[Pending] = []
            work: list[tuple[PartitionCopy, list[LogCommand]]] = []
            listings: list[tuple[PartitionCopy, ListOffsets]] = []
            for copy, commands in pending:
                written: list[LogCommand] = []
                for command in commands:
                    match command:
                        case ListOffsets():
                            listings.append((copy, command))
                        case BackOff():
                            if command.needs_metadata:
                                self.needs_metadata.set()
                        case Fail():
                            self.needs_metadata.set()
                            if command.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                                continue  # the next metadata has the new leader
                            copy.note_failure(command)
                            self.setup.report(f"{copy.error}")
                            self.has_changed.set()
                        case _:
                            written.append(command)
                if written:
                    work.append((copy, written))
            following += await self._write(work)
            following += await self._list(listings)
            pending = following

    async def _write(self, work: Sequence[tuple[PartitionCopy, list[LogCommand]]]) -> list[Pending]:
        allowed: list[tuple[PartitionCopy, list[LogCommand]]] = []
        following: list[Pending] = []
        for copy, commands in work:
            try:
                self._require_allowed(copy, commands)
            except TidelogError as error:
                following.append((copy, copy.follower.write_failed(error, self.now_ms)))
            else:
                allowed.append((copy, commands))
        if not allowed:
            return following
        outcomes = await self._run_pass([LogWork(copy.partition, copy.log, commands) for copy, commands in allowed])
        for (copy, _commands), outcome in zip(allowed, outcomes, strict=True):
            copy.copied_bytes += outcome.appended_bytes
            self.copied_bytes += outcome.appended_bytes
            self._flush.note(copy.log, outcome.appended_bytes)
            if isinstance(outcome.error, StorageError):
                raise outcome.error
            if outcome.error is None:
                following.append((copy, copy.follower.written(self.now_ms)))
            else:
                following.append((copy, copy.follower.write_failed(outcome.error, self.now_ms)))
        self.has_changed.set()
        return following

    async def _run_pass(self, work: Sequence[LogWork]) -> Sequence[LogOutcome]:
        """Run a pass in a background thread, and reserve producer ids first if it needs them."""
        directory = self.setup.directory
        self.setup.disk.require(
            sum(
                memoryview(command.records).nbytes
                for one in work
                for command in one.commands
                if isinstance(command, Append)
            )
        )
        while True:
            reserved = directory.image.next_producer_id
            result = await self.setup.in_thread(run_pass, directory.logs, work, reserved)
            if result.unreserved_id is None:
                return result.outcomes
            await directory.reserve_producer_ids(result.unreserved_id)

    def _require_allowed(self, copy: PartitionCopy, commands: Iterable[LogCommand]) -> None:
        """Raise SourceLostDataError for a truncation without a proof, and report the others."""
        log = copy.log
        for command in commands:
            if not self.setup.accepts_loss:
                require_proven(copy.partition, command, log.log_start_offset, log.end_offset)
            if isinstance(command, TruncateTo) and command.offset < log.end_offset:
                copy.removed_records += log.end_offset - max(command.offset, log.log_start_offset)
                self.setup.report(
                    f"{copy.partition}: truncated from {log.end_offset} to {command.offset}: {command.cause.value}"
                )
            elif isinstance(command, TruncateFully) and log.end_offset > log.log_start_offset:
                copy.removed_records += log.end_offset - log.log_start_offset
                self.setup.report(
                    f"{copy.partition}: the source has deleted all records below {command.offset}, and the copy ended"
                    f" at {log.end_offset}: it starts again at {command.offset}"
                )

    async def _list(self, listings: Sequence[tuple[PartitionCopy, ListOffsets]]) -> list[Pending]:
        async def list_one(copy: PartitionCopy, command: ListOffsets) -> Pending:
            leader = copy.follower.leader
            if leader is None:
                return copy, copy.follower.request_failed(command, self.now_ms)
            found = await self.setup.source.list_offsets(
                leader.leader_id, [(copy.partition, command.leader_epoch)], command.timestamp
            )
            listed = found.get(copy.partition, ListedPartition(error_code=-1))
            return copy, copy.follower.listed(command, listed, self.now_ms)

        return list(await asyncio.gather(*(list_one(*listing) for listing in listings)))

    @property
    def now_ms(self) -> int:
        return self.setup.clock.monotonic_ms()

    # --- fetchers ---

    def _assign(self, copy: PartitionCopy, leader_id: int | None) -> None:
        number = (crc32(copy.partition.topic.encode()) + copy.partition.partition) % self.setup.fetchers
        wanted = None if leader_id is None else (leader_id, number)
        for key, fetcher in self._fetchers.items():
            if key != wanted:
                fetcher.copies.pop(copy.partition, None)
        if wanted is not None:
            fetcher = self._fetchers.get(wanted) or self._started(*wanted)
            fetcher.copies[copy.partition] = copy
            fetcher.wake()

    def _started(self, node_id: int, number: int) -> _Fetcher:
        fetcher = self._fetchers[node_id, number] = _Fetcher(self, node_id, number)
        return fetcher


class _Fetcher:
    """A task that fetches the partitions of one leader. Without partitions it waits."""

    def __init__(self, copying: Copying, node_id: int, number: int) -> None:
        self.copies: dict[TopicPartition, PartitionCopy] = {}
        self._copying = copying
        self._setup = copying.setup
        self._exchange = FetchExchange(
            copying.setup.source.client, node_id, f"fetch-{number}", max_bytes=copying.setup.max_bytes
        )
        self._wake = asyncio.Event()
        self._is_stopped = False
        self._is_fetching = False
        self._writing: asyncio.Task[None] | None = None
        """The work on the last response with records."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
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
            self._copying.fail(error)

    async def _fetch_once(self) -> None:
        now_ms = self._copying.now_ms
        asked = {
            copy: position
            for copy in list(self.copies.values())
            if (position := copy.wanted_position(now_ms)) is not None
        }
        if self._writing is not None and not any(copy.is_behind for copy in asked):
            await self._end_writing()
        elif not asked:
            self._wake.clear()
            await self._wait_until_ready()
        elif (answer := await self._fetch(asked)) is not None:
            await self._take(asked, answer)

    async def _fetch(self, asked: Mapping[PartitionCopy, FetchPosition]) -> FetchAnswer | None:
        """Return the response, or None after a failure that the followers know of.

        A partition that is being written is asked for with the next request, so that request is not to wait.
        """
        self._is_fetching = True
        try:
            await self._setup.rate.wait()
            answer = await self._exchange.fetch(
                {copy.partition: position for copy, position in asked.items()},
                self._copying.ids,
                max_wait_ms=self._setup.max_wait_ms if self._writing is None else 0,
            )
        except ClientError as error:
            if not error.is_retriable:
                raise
            self._is_fetching = False
            _log.info("A fetch failed: %s", error)
            now_ms, code = self._copying.now_ms, error.code
            await self._copying.execute(
                [(copy, copy.follower.request_failed(at, now_ms, code)) for copy, at in asked.items()]
            )
            return None
        finally:
            self._is_fetching = False
        self._setup.rate.note(answer.size)
        return answer

    async def _take(self, asked: Mapping[PartitionCopy, FetchPosition], answer: FetchAnswer) -> None:
        """Hand a response to the followers, and begin the work on the logs after the work in progress."""
        if answer.has_new_leaders:
            self._copying.needs_metadata.set()
        pending: list[Pending] = []
        for copy, position in asked.items():
            fetched = answer.partitions.get(copy.partition)
            if fetched is None:
                copy.note_silence(position, is_empty=answer.size == 0)
            else:
                copy.note_response(position, fetched, is_empty=answer.size == 0)
                commands = copy.follower.fetched(position, copy.bounded(fetched), self._copying.now_ms)
                pending.append((copy, commands))
        if answer.size == 0:
            self._copying.has_changed.set()
        await self._end_writing()
        work = self._copying.execute(pending)
        if answer.size:
            self._writing = asyncio.get_running_loop().create_task(work)
        else:
            await work

    async def _end_writing(self) -> None:
        """Wait for the work in progress. Raise its error."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    async def _wait_until_ready(self) -> None:
        delays = [
            copy.follower.ready_at_ms - self._copying.now_ms
            for copy in self.copies.values()
            if copy.follower.phase is Phase.DELAYED and not copy.is_complete
        ]
        wait_s = min([_IDLE_S, *(max(1, delay) / 1000 for delay in delays)])
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            pass
