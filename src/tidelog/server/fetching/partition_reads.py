"""Reads of the partitions of one fetch, within its limits. They return file positions, not records.

====================  ============================================================================================
fetcher               reads up to
====================  ============================================================================================
a consumer            the high watermark, or the last stable offset if it reads committed records; the response
                      then lists the aborted transactions. From version 11 on a follower's log serves it as well
a follower            the log end; its fetch offset tells how far it has replicated. A throttled one that is out of
                      sync gets no records while the leader's quota is exceeded
====================  ============================================================================================

Partitions are read in request order. Each read returns at most the partition's own maximum and the bytes left of the
response's maximum. The first partition with records may exceed both, so that a large batch does not block its reader.
Thread rule: the event loop only. Source: Kafka's ``ReplicaManager.readFromLog``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.model import Isolation, TidelogError, TopicPartition
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.protocol.fetch import NO_DIVERGENCE, AbortedTransaction, DivergingEpoch, FetchRequest, PartitionData
from tidelog.server.fetching.fetch_session import CachedPartition, PartitionResult
from tidelog.server.fetching.replica_selector import ReplicaSelector
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.replica_manager import ReplicaManager
from tidelog.storage.log.partition_log import LogRead, LogReadRequest

_log = logging.getLogger(__name__)

COPIED_BYTES: Final = 32 * 1024
"""Records up to this size are copied into the response; more of them are sent from their file."""

_CONSUMERS: Final = (-1, -3)
"""The replica ids of consumers, and of a future replica that reads as a consumer."""
_COMMITTED: Final = 1
_FIRST_WITH_RACK: Final = 11
"""The first version in which consumers may read from followers."""
_UNRESOLVED: Final = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
"""Errors that do not complete a fetch early: the client cannot resolve them by fetching again at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The limits of one fetch: bytes over the whole response, and the time to wait in ms."""

    replica_id: int
    broker_epoch: int
    """The epoch of a follower's broker, or -1 if the request has none."""
    isolation: Isolation
    min_bytes: int
    max_bytes: int
    max_wait_ms: int
    leader_only: bool = True
    """False for a consumer that may read from a follower (KIP-392)."""
    throttles: Callable[[Partition], bool] = lambda _partition: False
    """Returns True for a follower's partition that must wait for the leader's quota."""
    selector: ReplicaSelector | None = None
    """Chooses other replicas for a consumer; None if it always reads here."""
    denied: Collection[CachedPartition] = ()
    """Partitions that the client is not authorized to read."""

    @classmethod
    def of(cls, version: int, request: FetchRequest, broker_max_bytes: int) -> FetchLimits:
        replica_id = request.replica_state.replica_id
        max_bytes = min(request.max_bytes, broker_max_bytes)
        isolation = Isolation.LOG_END
        if replica_id in _CONSUMERS:
            committed = request.isolation_level == _COMMITTED
            isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        return cls(
            replica_id=replica_id,
            broker_epoch=request.replica_state.replica_epoch,
            isolation=isolation,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            max_wait_ms=request.max_wait,
            leader_only=replica_id >= 0 or version < _FIRST_WITH_RACK,
        )

    @property
    def is_followers(self) -> bool:
        return self.replica_id >= 0


class FetchResults(NamedTuple):
    results: list[PartitionResult]
    size: int
    """The bytes of all records."""
    must_respond_now: bool
    """True if the response must not wait: a partition has diverged, is read elsewhere, or has an error outside
    ``_UNRESOLVED``."""
    replica_id: int
    """The broker that fetches, or a negative number for a consumer."""


def read_partitions(
    replicas: ReplicaManager, wanted: Iterable[CachedPartition], limits: FetchLimits, *, is_reread: bool = False
) -> FetchResults:
    """Read each partition. ``is_reread``: the same request has read them before, so a follower's progress is not
    recorded again."""
    results, left, total, is_final = [], limits.max_bytes, 0, False
    for cached in wanted:
        result = _read(replicas, cached, limits, left, first=total == 0, is_reread=is_reread)
        data = result.data
        size = len(data.records)
        total += size
        left = max(0, left - size)
        is_final |= data.diverging_epoch != NO_DIVERGENCE or data.preferred_read_replica >= 0
        is_final |= bool(data.error_code) and data.error_code not in _UNRESOLVED
        results.append(result)
    return FetchResults(results, total, is_final, limits.replica_id)


def _read(
    replicas: ReplicaManager,
    cached: CachedPartition,
    limits: FetchLimits,
    max_bytes: int,
    *,
    first: bool,
    is_reread: bool,
) -> PartitionResult:
    wanted = cached.wanted
    if limits.denied and cached in limits.denied:
        return PartitionResult(cached, PartitionData(wanted.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    try:
        if cached.topic:
            partition = replicas.partition(TopicPartition(cached.topic, cached.partition))
        else:
            partition = replicas.by_topic_id(cached.topic_id, cached.partition)
        preferred = None if limits.selector is None else limits.selector.preferred(partition, wanted.fetch_offset)
        if preferred is not None:
            return PartitionResult(cached, _redirected(cached, partition, preferred), partition)
        if limits.is_followers:
            partition.require_follower(limits.replica_id, wanted.current_leader_epoch, limits.broker_epoch)
        log_read = partition.read(
            LogReadRequest(
                start_offset=wanted.fetch_offset,
                max_bytes=max(0, min(wanted.partition_max_bytes, max_bytes)),
                isolation=limits.isolation,
                min_one_message=first,
            ),
            leader_epoch=wanted.current_leader_epoch,
            last_fetched_epoch=wanted.last_fetched_epoch,
            leader_only=limits.leader_only,
        )
    except TidelogError as error:
        return PartitionResult(cached, _refused(cached, error))
    if limits.is_followers and log_read.diverging is None and not is_reread:
        partition.follower_fetched(
            limits.replica_id,
            log_read,
            log_start_offset=wanted.log_start_offset,
            broker_epoch=limits.broker_epoch,
        )
    data = _found(wanted.partition, log_read)
    if limits.throttles(partition):
        data = data._replace(records=b"")
    return PartitionResult(cached, data, partition, log_read.start)


def _found(number: int, log_read: LogRead) -> PartitionData:
    offsets, found, aborted, diverging = log_read.offsets, log_read.batches, log_read.aborted, log_read.diverging
    return PartitionData(
        partition_index=number,
        high_watermark=offsets.high_watermark.message_offset,
        last_stable_offset=offsets.last_stable.message_offset,
        log_start_offset=offsets.log_start,
        aborted_transactions=None
        if aborted is None
        else [AbortedTransaction(one.producer_id, one.first_offset) for one in aborted],
        records=b"" if found is None or found.size == 0 or found.first_entry_incomplete else found,
        diverging_epoch=NO_DIVERGENCE if diverging is None else DivergingEpoch(diverging.epoch, diverging.end_offset),
    )


def _redirected(cached: CachedPartition, partition: Partition, preferred: int) -> PartitionData:
    """Return the offsets, and the replica to fetch from. Raise ApiError for another leader epoch."""
    offsets = partition.offsets(cached.wanted.current_leader_epoch, leader_only=False)
    return PartitionData(
        partition_index=cached.partition,
        high_watermark=offsets.high_watermark.message_offset,
        last_stable_offset=offsets.last_stable.message_offset,
        log_start_offset=offsets.log_start,
        preferred_read_replica=preferred,
    )


def _refused(cached: CachedPartition, error: TidelogError) -> PartitionData:
    code = error_code_of(error)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        _log.error(
            "Fetching %s-%d at offset %d failed",
            cached.topic,
            cached.partition,
            cached.wanted.fetch_offset,
            exc_info=error,
        )
    return PartitionData(partition_index=cached.partition, error_code=code)
