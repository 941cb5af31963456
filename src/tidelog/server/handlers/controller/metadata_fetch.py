"""Fetch and FetchSnapshot of the metadata log, by observers (KIP-595, KIP-630).

A request has one topic with one partition, ``__cluster_metadata-0``: by its fixed id from Fetch version 13 on, by its
name before and in FetchSnapshot. Responses name this controller and its endpoint, from Fetch version 17 and
FetchSnapshot version 1 on. Only nodes may use them (``Handler.of_nodes``). Source: Kafka's ``KafkaRaftClient``,
``RaftUtil``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.model import TidelogError
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.protocol.messages import NO_ID
from tidelog.replication.observer_messages import FetchedMetadata, MetadataFetch, SnapshotFetch
from tidelog.server.metadata.kraft.metadata_log import METADATA_TOPIC_ID
from tidelog.server.metadata.kraft.quorum import ObserverKey
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import controller as wire
    from tidelog.server.cluster_node import ClusterNode

_TOPIC_IDS: Final = 13
_REPLICA_STATE: Final = 15
_FETCH_ENDPOINTS: Final = 17
_SNAPSHOT_ENDPOINTS: Final = 1


async def fetch(node: ClusterNode, context: RequestContext, request: Any) -> Mapping[str, Any]:
    """Return records of the metadata log. ``request`` is kio's."""
    _require_cluster(node, request.cluster_id)
    wanted = _wanted(context.version, request)
    if min(wanted.fetch_offset, wanted.last_fetched_epoch, wanted.current_leader_epoch) < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "an offset or epoch of the fetch is negative")
    replica_id = request.replica_state.replica_id if context.version >= _REPLICA_STATE else request.replica_id
    task = asyncio.current_task()
    context.client.on_connection_closed = None if task is None else task.cancel
    try:
        found = await node.quorum_controller.observers.fetch(
            ObserverKey(replica_id, wanted.replica_directory_id or NO_ID),
            MetadataFetch(
                leader_epoch=wanted.current_leader_epoch,
                offset=wanted.fetch_offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                high_watermark=wanted.high_watermark,
            ),
            max_wait_ms=request.max_wait,
        )
    finally:
        context.client.on_connection_closed = None
    return _fetched(node, context, found)


def refuse_fetch(_context: RequestContext, _request: Any, error: TidelogError) -> Mapping[str, Any]:
    return {"error_code": error_code_of(error), "responses": []}


def _wanted(version: int, request: Any) -> Any:
    """Return the partition of a request. Raise ApiError(INVALID_REQUEST) unless it is the metadata partition alone."""
    parts = [(topic, part) for topic in request.topics for part in topic.partitions]
    if len(request.topics) == len(parts) == 1:
        topic, part = parts[0]
        if _is_metadata(version, topic) and part.partition == 0:
            return part
    raise ApiError(ErrorCode.INVALID_REQUEST, f"a controller serves {CLUSTER_METADATA_TOPIC}-0 alone")


def _is_metadata(version: int, topic: Any) -> bool:
    return bool(topic.topic_id == METADATA_TOPIC_ID if version >= _TOPIC_IDS else topic.topic == CLUSTER_METADATA_TOPIC)


def _fetched(node: ClusterNode, context: RequestContext, found: FetchedMetadata) -> Mapping[str, Any]:
    partition: dict[str, Any] = {
        "partition_index": 0,
        "error_code": found.error,
        "high_watermark": found.high_watermark,
        "log_start_offset": node.quorum_controller.observers.log_start_offset,
        "current_leader": {"leader_id": found.leader_id, "leader_epoch": found.leader_epoch},
        "aborted_transactions": None,
        "records": found.records,
    }
    if found.diverging is not None:
        partition["diverging_epoch"] = {"epoch": found.diverging.epoch, "end_offset": found.diverging.end_offset}
    if found.snapshot_id is not None:
        partition["snapshot_id"] = found.snapshot_id._asdict()
    topic = {"topic": CLUSTER_METADATA_TOPIC, "topic_id": METADATA_TOPIC_ID, "partitions": [partition]}
    endpoints = _leader_endpoints(node, context) if context.version >= _FETCH_ENDPOINTS else []
    return {"responses": [topic], "node_endpoints": [{**one, "rack": None} for one in endpoints]}


async def fetch_snapshot(
    node: ClusterNode, context: RequestContext, request: wire.FetchSnapshotRequest
) -> Mapping[str, Any]:
    """Return a part of a snapshot."""
    _require_cluster(node, request.cluster_id)
    parts = [(topic.name, part) for topic in request.topics for part in topic.partitions]
    if len(request.topics) != 1 or len(parts) != 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a snapshot is fetched of one partition")
    name, part = parts[0]
    endpoints = _leader_endpoints(node, context) if context.version >= _SNAPSHOT_ENDPOINTS else []
    if (name, part.partition) != (CLUSTER_METADATA_TOPIC, 0):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _snapshot_response(name, {"index": part.partition, "error_code": code}, endpoints)
    wanted = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    found = await node.quorum_controller.observers.fetch_snapshot(
        SnapshotFetch(leader_epoch=part.current_leader_epoch, snapshot_id=wanted, position=part.position),
        request.max_bytes,
    )
    partition = {
        "index": 0,
        "error_code": found.error,
        "snapshot_id": wanted._asdict(),
        "current_leader": {"leader_id": found.leader_id, "leader_epoch": found.leader_epoch},
        "size": found.size,
        "position": found.position,
        "unaligned_records": found.data,
    }
    return _snapshot_response(name, partition, endpoints)


def _snapshot_response(name: str, partition: Mapping[str, Any], endpoints: list[dict[str, Any]]) -> Mapping[str, Any]:
    filled = {"snapshot_id": {"end_offset": 0, "epoch": 0}, "size": 0, "position": 0, "unaligned_records": b""}
    return {"topics": [{"name": name, "partitions": [{**filled, **partition}]}], "node_endpoints": endpoints}


def _require_cluster(node: ClusterNode, cluster_id: str | None) -> None:
    """Raise ApiError(INCONSISTENT_CLUSTER_ID) for another cluster's id. A request without one is of this cluster."""
    if cluster_id not in (None, node.metadata.image.cluster_id):
        raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID)


def _leader_endpoints(node: ClusterNode, context: RequestContext) -> list[dict[str, Any]]:
    """Return this controller's endpoint, if it is that of the client's listener."""
    endpoint = node.quorum_controller.endpoint
    if endpoint.name.upper() != context.listener:
        return []
    return [{"node_id": node.node_id, "host": endpoint.host, "port": endpoint.port}]
