"""The fetchers of this broker: which one fetches a partition, and the execution of the followers' commands.

There are up to ``num.replica.fetchers`` fetchers for each leader. A hash of the partition chooses among them, as in
Kafka, so a partition has the same number at each leader.

======================================  ==============================================================================
event                                   effect
======================================  ==============================================================================
``release``                             fetching ends, and so does the pass in progress: the leader is about to change
``follow``                              the partition follows the metadata's leader. The same leader epoch as before
                                        changes nothing
another ``num.replica.fetchers``        partitions move to other fetchers, with the next response
the leader is not registered            the partition waits for ``brokers_changed``
a request fails, or an error            the partition backs off for ``replica.fetch.backoff.ms``, or less
a fenced epoch, or a failed log         the partition counts as failed until it follows in a new leader epoch
``remove``                              fetching ends: the replica is deleted or offline
======================================  ==============================================================================

A pass appends the records of all partitions of one response in an I/O thread. A short one runs on the event loop at
once (``log_work.is_short``). The records stay views of the response.
Thread rule: the event loop only, apart from the passes. Source: Kafka's ``ReplicaFetcherManager``,
``AbstractFetcherManager``, ``ReplicaFetcherThread``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tidelog.client.connection.connection import Encoder
from tidelog.client.model.errors import ClientClosedError, ClientError
from tidelog.following.command_runner import CommandRunner
from tidelog.following.fetch_exchange import FetchAnswer, FetchExchange, FetchFields
from tidelog.following.fetcher import Fetcher, FetcherSetup
from tidelog.following.log_work import LogOutcome, LogWork, check_batches, is_short, run_work
from tidelog.model import CorruptRecordError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode, error_text
from tidelog.protocol.fetch_response import Fetched, read_fetch_response
from tidelog.protocol.java_hash import absolute, string_hash
from tidelog.replication.follower_commands import (
    BackOff,
    Commands,
    Fail,
    ListOffsets,
    LogCommand,
    TruncateFully,
    TruncateTo,
)
from tidelog.replication.follower_events import FollowedLeader, ListedPartition
from tidelog.runtime.executor import InThread, Spawn
from tidelog.runtime.metrics import MetricRegistry
from tidelog.runtime.repeated_errors import RepeatedErrors
from tidelog.runtime.timers import Timers
from tidelog.server.links.broker_links import BrokerLinks
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.replicas.fetcher_metrics import FetcherStats
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.partition_follower import PartitionFollower
from tidelog.server.replicas.replication_meters import ReplicationMeters
from tidelog.server.replicas.replication_quota import ReplicationQuota
from tidelog.server.replicas.replication_settings import ReplicationSettings
from tidelog.server.replicas.request_versions import fetch_version, list_offsets_version
from tidelog.storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)

FetcherKey = tuple[int, int]
"""The leader's id and the fetcher's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherManagerSetup:
    node_id: int
    logs: LogManager
    links: BrokerLinks
    image: Callable[[], MetadataImage]
    broker_epoch: Callable[[], int]
    fetchers: Callable[[], int]
    """Returns the current ``num.replica.fetchers``."""
    settings: ReplicationSettings
    timers: Timers
    in_thread: InThread
    spawn: Spawn
    quota: ReplicationQuota
    """The follower's quota."""
    meters: ReplicationMeters
    metrics: MetricRegistry


class FetcherManager:
    def __init__(self, setup: FetcherManagerSetup) -> None:
        self.followers: dict[Partition, PartitionFollower] = {}
        self.fetchers: dict[FetcherKey, Fetcher[PartitionFollower]] = {}
        self.failed_partitions: set[TopicPartition] = set()
        """The partitions that wait for a new leader epoch after an error."""
        self.dead_fetchers = 0
        self._setup = setup
        self._stats: dict[FetcherKey, FetcherStats] = {}
        self._size = setup.fetchers()
        """The number of fetchers for each leader."""
        self._places: dict[Partition, FetcherKey] = {}
        """The fetcher of each partition. A partition whose leader is not registered has none."""
        self._refusals = RepeatedErrors(
            _log,
            "Records of %s are refused, and will be fetched again: %s. If this goes on, check the leader's disk with"
            " tidelog verify, or let another replica lead",
        )
        self._runner: CommandRunner[PartitionFollower] = CommandRunner(self, setup.timers.monotonic_ms)

    # --- partitions ---

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Follow the leaders of partitions in their current leader epochs."""
        for partition in partitions:
            replica = self.followers.setdefault(partition, PartitionFollower(partition, self._setup.quota))
            leader = FollowedLeader(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch, topic_id=partition.topic_id
            )
            is_new = partition.follower.leader is None or partition.follower.leader.leader_epoch < leader.leader_epoch
            commands = partition.follower.follow(leader)
            if is_new:
                self.failed_partitions.discard(partition.topic_partition)
            self._place(replica)
            if commands:
                self._setup.spawn(self._begin(replica, commands))

    async def release(self, partitions: Iterable[Partition]) -> None:
        """End the fetching of partitions, and return once nothing changes their logs any more."""
        released = [replica for partition in partitions if (replica := self.remove(partition)) is not None]
        for replica in released:
            await self._runner.written(replica)

    def remove(self, partition: Partition) -> PartitionFollower | None:
        """End the fetching of a partition. A pass in progress may still change its log."""
        replica = self.followers.pop(partition, None)
        if replica is not None:
            partition.follower.stop()
            self._unplace(partition)
        self.failed_partitions.discard(partition.topic_partition)
        return replica

    def brokers_changed(self) -> None:
        """Fetch from leaders that are registered now, and end the fetching from others."""
        for replica in list(self.followers.values()):
            self._place(replica)

    async def close(self) -> None:
        """End all fetchers. Passes in progress end first."""
        for partition in list(self.followers):
            self.remove(partition)
        fetchers, self.fetchers = self.fetchers, {}
        for key, fetcher in fetchers.items():
            fetcher.stop()
            self._stats.pop(key).remove()
        await asyncio.gather(*(fetcher.task for fetcher in fetchers.values()), return_exceptions=True)

    @property
    def lags(self) -> Iterator[tuple[FetcherKey, PartitionFollower]]:
        """The followers that are fetched, with their fetchers."""
        for partition, key in list(self._places.items()):
            replica = self.followers.get(partition)
            if replica is not None:
                yield key, replica

    async def _begin(self, replica: PartitionFollower, commands: Commands) -> None:
        """Execute the first commands of a follower, and fetch then."""
        await self._runner.execute([(replica, commands)])
        key = self._places.get(replica.served)
        if key is not None:
            self.fetchers[key].wake()

    @property
    def request_rates(self) -> list[float]:
        """The one-minute rate of requests of each fetcher."""
        return [stats.request_rate for stats in list(self._stats.values())]

    def rates(self, key: FetcherKey) -> tuple[float, float]:
        """Return a fetcher's one-minute rates of requests and of bytes."""
        stats = self._stats.get(key)
        return (0.0, 0.0) if stats is None else (stats.request_rate, stats.byte_rate)

    # --- the executor of commands ---

    def prepare(self, replica: PartitionFollower, commands: Sequence[LogCommand]) -> None:
        log = replica.log
        for command in commands:
            if isinstance(command, TruncateTo) and command.offset < log.end_offset:
                level = logging.WARNING if command.is_below_high_watermark else logging.INFO
                _log.log(
                    level,
                    "%s is truncated from offset %d to %d, because %s; its high watermark is %d",
                    replica.partition,
                    log.end_offset,
                    command.offset,
                    command.cause.value,
                    command.high_watermark,
                )
            elif isinstance(command, TruncateFully):
                _log.warning(
                    "%s starts over at offset %d: the leader has deleted all records of this log, which ends at %d",
                    replica.partition,
                    command.offset,
                    log.end_offset,
                )

    async def run_pass(self, work: Sequence[LogWork]) -> Sequence[LogOutcome]:
        logs = self._setup.logs
        if is_short(work):
            return _run_pass(logs, work)
        return await self._setup.in_thread(_run_pass, logs, work)

    def wrote(self, replica: PartitionFollower, outcome: LogOutcome) -> None:
        if outcome.appended_bytes:
            self._setup.meters.bytes_in.mark(outcome.appended_bytes)
            if self._setup.node_id in replica.served.adding:
                self._setup.meters.reassigned_in.mark(outcome.appended_bytes)
        replica.served.check_delayed()

    async def list_offset(self, replica: PartitionFollower, command: ListOffsets) -> ListedPartition:
        leader, setup = replica.follower.leader, self._setup
        if leader is None:
            return ListedPartition(error_code=ErrorCode.NETWORK_EXCEPTION)
        asked = {
            "partition_index": replica.partition.partition,
            "current_leader_epoch": command.leader_epoch,
            "timestamp": int(command.timestamp),
        }
        values = {
            "replica_id": setup.node_id,
            "isolation_level": 0,
            "topics": [{"name": replica.partition.topic, "partitions": [asked]}],
        }
        try:
            response = await setup.links.send(
                leader.leader_id,
                ApiKey.LIST_OFFSETS,
                values,
                purpose="list-offsets",
                version=list_offsets_version(self._metadata_version),
                timeout_ms=setup.settings.socket_timeout_ms,
            )
        except ClientError as error:
            _log.info("The offsets of %s cannot be listed: %s", replica.partition, error)
            return ListedPartition(error_code=error.code)
        found = [one for topic in response.topics for one in topic.partitions]
        if len(found) != 1:
            return ListedPartition(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return ListedPartition(error_code=found[0].error_code, offset=found[0].offset)

    def backed_off(self, replica: PartitionFollower, command: BackOff) -> None:
        if command.message:
            self._refusals.note(
                f"{replica.partition} from broker {replica.served.leader} at offset {replica.log.end_offset}",
                CorruptRecordError(command.message),
            )
        if not command.is_of_request:  # The fetcher logs the error of a request once.
            _log.info(
                "%s is fetched again from broker %d after a back-off of %d ms: %s",
                replica.partition,
                replica.served.leader,
                command.wait_ms,
                error_text(command.error_code),
            )

    def failed(self, replica: PartitionFollower, command: Fail) -> None:
        _log.error("%s is not fetched until it has a new leader epoch: %s", replica.partition, command.message)
        self.failed_partitions.add(replica.partition)

    # --- fetchers ---

    @property
    def _metadata_version(self) -> int:
        return self._setup.image().metadata_version

    def _place(self, replica: PartitionFollower) -> None:
        """Give a partition to the fetcher of its leader."""
        partition = replica.served
        if partition.leader not in self._setup.image().brokers:
            self._unplace(partition)
            name, leader_id = partition.topic_partition, partition.leader
            _log.info("%s is not fetched, because its leader, broker %d, is not registered", name, leader_id)
            return
        key = (partition.leader, fetcher_number(partition.topic_partition, self._size))
        if self._places.get(partition) != key:
            self._unplace(partition)
            self._places[partition] = key
        fetcher = self.fetchers.get(key) or self._started(key)
        fetcher.replicas[partition.topic_partition] = replica
        fetcher.wake()

    def _unplace(self, partition: Partition) -> None:
        """Take a partition from its fetcher, if it has one. A fetcher without partitions ends."""
        key = self._places.pop(partition, None)
        fetcher = None if key is None else self.fetchers.get(key)
        if key is None or fetcher is None:
            return
        fetcher.replicas.pop(partition.topic_partition, None)
        if not fetcher.replicas:
            del self.fetchers[key]
            fetcher.stop()
            self._stats.pop(key).remove()

    def _started(self, key: FetcherKey) -> Fetcher[PartitionFollower]:
        setup, (leader_id, number) = self._setup, key
        self._stats[key] = FetcherStats(setup.metrics, key, setup.links.address_of(leader_id))
        exchange = FetchExchange(
            f"broker {leader_id}", partial(self._send, leader_id, f"fetch-{number}"), self._fetch_fields
        )
        fetcher = self.fetchers[key] = Fetcher(
            FetcherSetup(
                exchange=exchange,
                runner=self._runner,
                now_ms=setup.timers.monotonic_ms,
                max_wait_ms=setup.settings.fetch_wait_max_ms,
                on_failure=partial(self._fetcher_failed, key),
                on_answer=lambda answer: self._answered(key, answer),
                gives_up=lambda error: isinstance(error, ClientClosedError),
            )
        )
        return fetcher

    def _fetch_fields(self) -> FetchFields:
        settings = self._setup.settings
        return FetchFields(
            replica_id=self._setup.node_id,
            broker_epoch=self._setup.broker_epoch(),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_response_max_bytes,
            partition_max_bytes=settings.fetch_max_bytes,
        )

    async def _send(self, leader_id: int, purpose: str, request: Encoder, *, uses_topic_ids: bool) -> Fetched:
        setup = self._setup
        response: Fetched = await setup.links.send(
            leader_id,
            ApiKey.FETCH,
            request,
            purpose=purpose,
            version=fetch_version(self._metadata_version),
            timeout_ms=setup.settings.socket_timeout_ms,
            decode=read_fetch_response,
        )
        return response

    def _answered(self, key: FetcherKey, answer: FetchAnswer) -> None:
        """Count a response, and spread the partitions again if the number of fetchers has changed."""
        stats = self._stats.get(key)
        if stats is not None:
            stats.note(answer.size)
        fetchers = self._setup.fetchers()
        if fetchers != self._size:
            self._size = fetchers
            self.brokers_changed()

    def _fetcher_failed(self, key: FetcherKey, error: BaseException) -> None:
        """Report a fetcher that has ended. Closed links mean that the broker is stopping."""
        if isinstance(error, ClientClosedError):
            return
        self.dead_fetchers += 1
        _log.error("Fetcher %d of broker %d has failed; its partitions are not fetched", key[1], key[0], exc_info=error)


def fetcher_number(partition: TopicPartition, fetchers: int) -> int:
    """Return the number of the fetcher that fetches a partition from any leader."""
    return absolute((31 * string_hash(partition.topic) + partition.partition) & 0xFFFF_FFFF) % fetchers


def _run_pass(logs: LogManager, work: Sequence[LogWork]) -> Sequence[LogOutcome]:
    return run_work(logs, work, check_batches(work), sets_high_watermark=True)
