"""Fetch requests to one leader, on a connection of their own. Thread rule: the event loop only."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, error_text
from tidelog.replication.follower_events import FetchedPartition, FetchPosition
from tidelog.storage.epoch import EpochEndOffset

_WITH_DIVERGENCE: Final = 12
"""The first version of Fetch in which the leader compares epochs."""
_CONSUMER: Final = -1
_MAX_BYTES: Final = 50 * 1024 * 1024
_MAX_PARTITION_BYTES: Final = 50 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    partitions: Mapping[TopicPartition, FetchedPartition]
    size: int
    """The bytes of all records."""


class FetchExchange:
    def __init__(self, client: ClusterClient, node_id: int, purpose: str, *, max_bytes: int = _MAX_BYTES) -> None:
        self._client = client
        self._node_id = node_id
        self._purpose = purpose
        self._max_bytes = max_bytes

    async def fetch(
        self, positions: Mapping[TopicPartition, FetchPosition], ids: Mapping[str, uuid.UUID], *, max_wait_ms: int
    ) -> FetchAnswer:
        """Fetch from the positions. ``ids`` are the topics' ids.

        Raise ClientError, or ApiError for an error of the complete request.
        """
        names = {topic_id: name for name, topic_id in ids.items()}
        topics: dict[str, list[dict[str, int]]] = {}
        for (topic, number), position in positions.items():
            topics.setdefault(topic, []).append(
                {
                    "partition": number,
                    "current_leader_epoch": position.leader_epoch,
                    "fetch_offset": position.offset,
                    "last_fetched_epoch": position.last_fetched_epoch,
                    "log_start_offset": -1,
                    "partition_max_bytes": min(_MAX_PARTITION_BYTES, self._max_bytes),
                }
            )
        values = {
            "replica_id": _CONSUMER,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._max_bytes,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {"topic": name, "topic_id": ids[name], "partitions": partitions} for name, partitions in topics.items()
            ],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        response = await self._client.send(
            self._node_id, ApiKey.FETCH, values, purpose=self._purpose, at_least=_WITH_DIVERGENCE
        )
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), f"Fetch failed: {error_text(response.error_code)}")
        found = {}
        size = 0
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id)
            if name is None:
                continue
            for one in topic.partitions:
                diverging = one.diverging_epoch
                found[TopicPartition(name, one.partition_index)] = FetchedPartition(
                    error_code=one.error_code,
                    high_watermark=one.high_watermark,
                    log_start_offset=one.log_start_offset,
                    diverging_epoch=(
                        EpochEndOffset(diverging.epoch, diverging.end_offset)
                        if diverging is not None and diverging.epoch >= 0
                        else None
                    ),
                    records=one.records,
                )
                size += len(one.records or b"")
        return FetchAnswer(partitions=found, size=size)
