"""The observer's messages on the wire: Fetch and FetchSnapshot of the metadata log. Pure.

Source: Kafka's ``RaftUtil``; KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode, code_of
from tidelog.protocol.fetch_response import Fetched, SnapshotId
from tidelog.replication.observer_messages import (
    FetchedMetadata,
    FetchedSnapshot,
    MetadataFetch,
    QuorumNode,
    SnapshotFetch,
)
from tidelog.server.metadata.kraft.metadata_log import METADATA_TOPIC_ID
from tidelog.storage.epoch import EpochEndOffset

_MAX_WAIT_MS: Final = 500
_MAX_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """This node, as its requests name it, and the limits of its fetches."""

    cluster_id: str
    node_id: int
    directory_id: uuid.UUID | None
    """The id of the log directory with the metadata."""
    fetch_max_bytes: int = _MAX_BYTES
    """``controller.quorum.fetch.max.bytes``"""
    snapshot_max_bytes: int = _MAX_BYTES
    """``controller.quorum.fetch.snapshot.max.bytes``"""


def fetch_values(observer: Observer, request: MetadataFetch, log_start_offset: int) -> Mapping[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": request.leader_epoch,
        "fetch_offset": request.offset,
        "last_fetched_epoch": request.last_fetched_epoch,
        "log_start_offset": log_start_offset,
        "partition_max_bytes": 0,
        "replica_directory_id": observer.directory_id,
        "high_watermark": request.high_watermark,
    }
    return {
        "cluster_id": observer.cluster_id,
        "replica_state": {"replica_id": observer.node_id, "replica_epoch": -1},
        "max_wait": _MAX_WAIT_MS,
        "min_bytes": 0,
        "max_bytes": observer.fetch_max_bytes,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }


def snapshot_values(observer: Observer, request: SnapshotFetch) -> Mapping[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": request.leader_epoch,
        "snapshot_id": request.snapshot_id._asdict(),
        "position": request.position,
        "replica_directory_id": observer.directory_id,
    }
    return {
        "cluster_id": observer.cluster_id,
        "replica_id": observer.node_id,
        "max_bytes": observer.snapshot_max_bytes,
        "topics": [{"name": CLUSTER_METADATA_TOPIC, "partitions": [partition]}],
    }


def fetched_metadata(response: Fetched) -> FetchedMetadata:
    if response.error_code or not response.responses or not response.responses[0].partitions:
        return FetchedMetadata(top_level_error=_error(response.error_code))
    part = response.responses[0].partitions[0]
    diverging = part.diverging_epoch
    return FetchedMetadata(
        error=code_of(part.error_code),
        leader_id=part.current_leader.leader_id,
        leader_epoch=part.current_leader.leader_epoch,
        endpoints=_endpoints(response.node_endpoints),
        high_watermark=part.high_watermark,
        diverging=EpochEndOffset(diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
        snapshot_id=part.snapshot_id if part.snapshot_id.epoch >= 0 else None,
        records=part.records,
    )


def fetched_snapshot(response: Any) -> FetchedSnapshot:
    """Return the piece in a FetchSnapshot response."""
    if response.error_code or not response.topics or not response.topics[0].partitions:
        return FetchedSnapshot(top_level_error=_error(response.error_code))
    part = response.topics[0].partitions[0]
    return FetchedSnapshot(
        error=code_of(part.error_code),
        leader_id=part.current_leader.leader_id,
        leader_epoch=part.current_leader.leader_epoch,
        endpoints=_endpoints(response.node_endpoints),
        snapshot_id=SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        position=part.position,
        size=part.size,
        data=bytes(part.unaligned_records or b""),
    )


def _endpoints(found: Iterable[Any]) -> dict[int, QuorumNode]:
    return {one.node_id: QuorumNode(one.node_id, one.host, one.port) for one in found}


def _error(code: int) -> ErrorCode:
    """Return the error of the whole response. A response without the partition counts as an error, too."""
    return code_of(code) if code else ErrorCode.UNKNOWN_SERVER_ERROR
