"""Fetch: records from segment files to the socket, at once or when enough of them are available.

The session selects the partitions (``fetch_context``), which are then read (``partition_reads``). If the read finds too
little, a delayed fetch waits as long as the client stays connected (``delayed_fetch``), and then reads again. Up to
``partition_reads.COPIED_BYTES``, records are copied into the response. Larger ranges are sent from the file, never
beyond the end that the read found. Batches are sent as stored, whatever the version.

Thread rule: the event loop only. Source: Kafka's ``KafkaApis.handleFetchRequest``, ``ReplicaManager.fetchMessages``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, cast

from tidelog.model import StorageError, TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode, error_code_of
from tidelog.protocol.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    read_fetch_request,
    write_fetch_response,
)
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, topic
from tidelog.server.fetching import partition_reads
from tidelog.server.fetching.delayed_fetch import DelayedFetch
from tidelog.server.fetching.fetch_context import FetchContext, begin_fetch
from tidelog.server.fetching.fetch_session import CachedPartition, PartitionResult
from tidelog.server.fetching.partition_reads import FetchLimits, FetchResults, read_partitions
from tidelog.server.fetching.replica_selector import ReplicaSelector
from tidelog.server.handlers.data.leader_lookup import LeaderLookup
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse
from tidelog.server.network.send_queue import Part
from tidelog.server.replicas.purgatory import wait_until
from tidelog.storage.segment.segment_read import SegmentRead

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_FIRST_WITH_STORAGE_ERROR: Final = 6
_FIRST_WITH_ZSTD: Final = 10
_FIRST_WITH_LEADER_HINTS: Final = 16
_STALE_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def read(_api: ApiKey, version: int, body: memoryview) -> FetchRequest:
    return read_fetch_request(version, body)


def refuse(_context: RequestContext, request: FetchRequest, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for the request and for every partition that it names. Each version has only one of the two."""
    code = error_code_of(error)
    responses = [
        {
            "topic": asked.topic,
            "topic_id": asked.topic_id,
            "partitions": [
                {"partition_index": wanted.partition, "error_code": code, "high_watermark": -1}
                for wanted in asked.partitions
            ],
        }
        for asked in request.topics
    ]
    return {"error_code": code, "responses": responses}


def handle(
    broker: Broker, context: RequestContext, request: FetchRequest
) -> EncodedResponse | Awaitable[EncodedResponse]:
    fetch = begin_fetch(context.version, request, broker.fetch_sessions, broker.timers.monotonic_ms())
    limits = FetchLimits.of(context.version, request, _most_bytes(broker, context, request))
    if limits.is_followers:
        limits = replace(limits, throttles=partial(broker.replicas.throttles, replica_id=limits.replica_id))
    if broker.selects_by_rack and not limits.leader_only and request.rack_id:
        limits = replace(limits, selector=_selector(broker, context, request))
    if broker.authorizer.is_on:
        limits = replace(limits, denied=_denied(broker, context, fetch.wanted, limits))
    context.client.is_exempt = limits.is_followers and not limits.denied
    found = read_partitions(broker.replicas, fetch.wanted, limits)
    pending = DelayedFetch(found.results, limits)
    if limits.max_wait_ms <= 0 or found.must_respond_now or found.size >= limits.min_bytes or not pending.partitions:
        return _respond(broker, context, fetch, found)
    return _respond_later(broker, context, fetch, pending, limits)


def _selector(broker: Broker, context: RequestContext, request: FetchRequest) -> ReplicaSelector:
    return ReplicaSelector(
        node_id=broker.node_id,
        image=broker.metadata.image,
        listener=context.listener,
        rack=request.rack_id,
    )


def _most_bytes(broker: Broker, context: RequestContext, request: FetchRequest) -> int:
    """Return the most bytes of a response. A consumer with a quota gets less, so that its throttle time stays
    bounded."""
    most = broker.config.number("fetch.max.bytes")
    of_quota = None if request.replica_state.replica_id >= 0 else broker.quotas.max_fetch_bytes(context)
    return most if of_quota is None else min(most, of_quota)


def _denied(
    broker: Broker, context: RequestContext, wanted: Collection[CachedPartition], limits: FetchLimits
) -> Collection[CachedPartition]:
    """Return the partitions that the client may not read; for a follower all or none.

    Unknown topics are not included.
    """
    if limits.is_followers:
        return () if broker.authorizer.allows(context, Operation.CLUSTER_ACTION, CLUSTER) else wanted
    image = broker.metadata.image
    names = {cached: image.topic_name(cached.topic, cached.topic_id) for cached in wanted}
    allowed = broker.authorizer.allowed(context, Operation.READ, topic, filter(None, names.values()))
    return {cached for cached, name in names.items() if name is not None and name not in allowed}


async def _respond_later(
    broker: Broker, context: RequestContext, fetch: FetchContext, pending: DelayedFetch, limits: FetchLimits
) -> EncodedResponse:
    task = asyncio.current_task()
    context.client.on_connection_closed = None if task is None else task.cancel
    try:
        await wait_until(pending.is_ready, pending.partitions, broker.timers, limits.max_wait_ms)
    finally:
        context.client.on_connection_closed = None
    return _respond(broker, context, fetch, read_partitions(broker.replicas, fetch.wanted, limits, is_reread=True))


def _respond(broker: Broker, context: RequestContext, fetch: FetchContext, found: FetchResults) -> EncodedResponse:
    leaders = LeaderLookup(broker.metadata.image, context.listener)
    _count_replicated(broker, found)
    results = [_for_version(context.version, result, leaders) for result in found.results]
    selected = fetch.select(results, broker.timers.monotonic_ms())
    response = FetchResponse(
        responses=tuple(_by_topic(selected.results)),
        error_code=selected.error,
        throttle_time=broker.quotas.throttle(context, fetched=0 if context.client.is_exempt else found.size),
        session_id=selected.session_id,
        node_endpoints=leaders.endpoints,
    )
    return EncodedResponse(cast("list[Part]", write_fetch_response(context.version, response)))


def _count_replicated(broker: Broker, found: FetchResults) -> None:
    """Count the bytes that a follower gets."""
    if found.replica_id < 0 or not found.size:
        return
    replicas = broker.replicas
    replicas.meters.bytes_out.mark(found.size)
    added = throttled = 0
    for result in found.results:
        if result.partition is not None and (size := len(result.data.records)):
            added += size if found.replica_id in result.partition.adding else 0
            throttled += size if replicas.leader_quota.is_throttled(result.partition.topic_partition) else 0
    if added:
        replicas.meters.reassigned_out.mark(added)
    replicas.leader_quota.record(throttled)


def _for_version(version: int, result: PartitionResult, leaders: LeaderLookup) -> PartitionResult:
    """Return the result in the form that clients of the version understand."""
    data, partition = result.data, result.partition
    if data.error_code in _STALE_LEADER and version >= _FIRST_WITH_LEADER_HINTS:
        leader = leaders.leader_of(result.cached.topic or result.cached.topic_id, data.partition_index)
        return result._replace(data=data._replace(current_leader=leader))
    if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < _FIRST_WITH_STORAGE_ERROR:
        return result._replace(data=data._replace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    if version < _FIRST_WITH_ZSTD and partition is not None and partition.log.config.compression_type == "zstd":
        return result._replace(data=PartitionData(data.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE))
    return result


def _by_topic(results: Sequence[PartitionResult]) -> Iterator[FetchableTopicResponse]:
    """Group adjacent results by topic. Equal topics further apart stay separate to keep the order."""
    for (name, topic_id), group in groupby(results, key=lambda result: (result.cached.topic, result.cached.topic_id)):
        yield FetchableTopicResponse(name, topic_id, [_copied_if_small(result.data) for result in group])


def _copied_if_small(data: PartitionData) -> PartitionData:
    """Return the result with the bytes of a small range of a file. A large range is sent from the file."""
    records = data.records
    if not isinstance(records, SegmentRead) or records.size > partition_reads.COPIED_BYTES:
        return data
    try:
        return data._replace(records=records.data())
    except StorageError:
        return PartitionData(data.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
