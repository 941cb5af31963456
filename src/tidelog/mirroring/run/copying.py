"""The copying of partitions: fetchers for their leaders, the work on their logs, and events for people.

Each leader has a few fetchers (``following.fetcher``), and the partitions of a topic are spread over them. A pass does
the work of one response on all its logs in a background thread (``target.log_pass``).

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
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from zlib import crc32

from tidelog.following.command_runner import CommandRunner, Pending
from tidelog.following.fetch_exchange import FetchAnswer, FetchExchange, FetchFields
from tidelog.following.fetcher import Fetcher, FetcherSetup
from tidelog.following.log_work import LogOutcome, LogWork
from tidelog.mirroring.run.early_flush import EarlyFlush
from tidelog.mirroring.run.limits import DiskLimit, RateLimit
from tidelog.mirroring.run.partition_copy import PartitionCopy
from tidelog.mirroring.run.protection import require_proven
from tidelog.mirroring.source.source_cluster import SourceCluster
from tidelog.mirroring.target.log_pass import run_pass
from tidelog.mirroring.target.mirror_directory import MirrorDirectory
from tidelog.model import StorageError, TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.follower_commands import (
    Append,
    BackOff,
    Fail,
    ListOffsets,
    LogCommand,
    TruncateFully,
    TruncateTo,
)
from tidelog.replication.follower_events import FollowedLeader, ListedPartition
from tidelog.runtime import Clock
from tidelog.runtime.executor import InThread


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
        self._fetchers: dict[tuple[int, int], Fetcher[PartitionCopy]] = {}
        self._runner: CommandRunner[PartitionCopy] = CommandRunner(self, setup.clock.monotonic_ms)
        self._flush = EarlyFlush(setup.in_thread, self.fail)
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- the partitions ---

    def add(self, copy: PartitionCopy, topic_id: uuid.UUID) -> None:
        self.copies[copy.partition] = copy
        self.ids[copy.partition.topic] = copy.topic_id = topic_id

    def remove(self, topic: str) -> None:
        """Forget the partitions of a topic."""
        self.ids.pop(topic, None)
        for partition in [one for one in self.copies if one.topic == topic]:
            self._assign(self.copies.pop(partition), None)

    async def follow(self, leaders: Mapping[TopicPartition, FollowedLeader]) -> None:
        """Follow the leaders of the newest metadata. Their epochs are in the copy's metadata already."""
        pending: list[Pending[PartitionCopy]] = []
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

    async def execute(self, pending: Sequence[Pending[PartitionCopy]]) -> None:
        """Execute the commands of followers, and the commands that follow from these."""
        await self._runner.execute(pending)

    def prepare(self, copy: PartitionCopy, commands: Sequence[LogCommand]) -> None:
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

    async def run_pass(self, work: Sequence[LogWork]) -> Sequence[LogOutcome]:
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
                self.has_changed.set()
                return result.outcomes
            await directory.reserve_producer_ids(result.unreserved_id)

    def wrote(self, copy: PartitionCopy, outcome: LogOutcome) -> None:
        """Count copied bytes. Raise the error of a failed disk."""
        copy.copied_bytes += outcome.appended_bytes
        self.copied_bytes += outcome.appended_bytes
        self._flush.note(copy.log, outcome.appended_bytes)
        if isinstance(outcome.error, StorageError):
            raise outcome.error

    async def list_offset(self, copy: PartitionCopy, command: ListOffsets) -> ListedPartition:
        leader = copy.follower.leader
        if leader is None:
            return ListedPartition(error_code=ErrorCode.NETWORK_EXCEPTION)
        found = await self.setup.source.list_offsets(
            leader.leader_id, [(copy.partition, command.leader_epoch)], command.timestamp
        )
        return found.get(copy.partition, ListedPartition(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

    def backed_off(self, _copy: PartitionCopy, command: BackOff) -> None:
        if command.needs_metadata:
            self.needs_metadata.set()

    def failed(self, copy: PartitionCopy, command: Fail) -> None:
        self.needs_metadata.set()
        if command.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            return  # the next metadata has the new leader
        copy.note_failure(command)
        self.setup.report(f"{copy.error}")
        self.has_changed.set()

    @property
    def now_ms(self) -> int:
        return self.setup.clock.monotonic_ms()

    # --- fetchers ---

    def _assign(self, copy: PartitionCopy, leader_id: int | None) -> None:
        number = (crc32(copy.partition.topic.encode()) + copy.partition.partition) % self.setup.fetchers
        wanted = None if leader_id is None else (leader_id, number)
        for key, fetcher in self._fetchers.items():
            if key != wanted:
                fetcher.replicas.pop(copy.partition, None)
        if wanted is not None:
            fetcher = self._fetchers.get(wanted) or self._started(*wanted)
            fetcher.replicas[copy.partition] = copy
            fetcher.wake()

    def _started(self, node_id: int, number: int) -> Fetcher[PartitionCopy]:
        setup = self.setup
        fields = FetchFields(max_bytes=setup.max_bytes, partition_max_bytes=setup.max_bytes)
        exchange = FetchExchange(
            f"broker {node_id}", partial(setup.source.fetch, node_id, f"fetch-{number}"), lambda: fields
        )
        fetcher = self._fetchers[node_id, number] = Fetcher(
            FetcherSetup(
                exchange=exchange,
                runner=self._runner,
                now_ms=setup.clock.monotonic_ms,
                max_wait_ms=setup.max_wait_ms,
                on_failure=self.fail,
                on_answer=self._answered,
                before_fetch=setup.rate.wait,
                gives_up=lambda error: not error.is_retriable,
            )
        )
        return fetcher

    def _answered(self, answer: FetchAnswer) -> None:
        """Count the bytes of a response, and hand its leader hints (KIP-951) to the client."""
        self.setup.rate.note(answer.size)
        for (topic, number), leader in answer.hints:
            self.setup.source.client.learn_leader(
                topic, number, leader.leader_id, leader.leader_epoch, answer.endpoints
            )
            self.needs_metadata.set()
        if answer.size == 0:
            self.has_changed.set()
