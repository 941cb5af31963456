"""Fetch requests to one leader as a consumer, in a fetch session on a connection of their own.

The records of a response stay where they were received. A hint about a new leader goes to the client's metadata at
once. After any failure the next request is a full one. Thread rule: the event loop only, one request at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.client.model.errors import DisconnectedError
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import error_text
from tidelog.protocol.fetch import NO_DIVERGENCE
from tidelog.protocol.fetch_response import Fetched, read_fetch_response
from tidelog.protocol.fetch_response import FetchedPartition as ResponsePartition
from tidelog.replication.fetch_session_handler import (
    FetchResponseHead,
    FetchSessionHandler,
    SessionRequest,
    WantedPartition,
)
from tidelog.replication.follower_events import UNKNOWN_OFFSET, FetchedPartition, FetchPosition
from tidelog.storage.epoch import EpochEndOffset

_WITH_DIVERGENCE: Final = 12
"""The first version of Fetch in which the leader compares epochs."""
_LAST_WITH_NAMES: Final = 12
_CONSUMER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """The partitions of a response. A partition without news is missing."""

    partitions: Mapping[TopicPartition, FetchedPartition]
    size: int
    """The bytes of all records."""
    has_new_leaders: bool
    """True if the response named new leaders."""


class FetchExchange:
    def __init__(self, client: ClusterClient, node_id: int, purpose: str, *, max_bytes: int) -> None:
        self._client = client
        self._node_id = node_id
        self._purpose = purpose
        self._max_bytes = max_bytes
        self._session = FetchSessionHandler()

    async def fetch(
        self, positions: Mapping[TopicPartition, FetchPosition], ids: Mapping[str, uuid.UUID], *, max_wait_ms: int
    ) -> FetchAnswer:
        """Fetch from the positions; ``ids`` are the topics' ids. Raise ClientError, also for an unusable response."""
        request = self._session.next_request(
            {
                partition: WantedPartition(
                    position=_of_consumer(position), max_bytes=self._max_bytes, topic_id=ids[partition.topic]
                )
                for partition, position in positions.items()
            }
        )
        try:
            response: Fetched = await self._client.send(
                self._node_id,
                ApiKey.FETCH,
                self._values(request, max_wait_ms),
                purpose=self._purpose,
                at_least=_WITH_DIVERGENCE,
                at_most=None if request.uses_topic_ids else _LAST_WITH_NAMES,
                decode=read_fetch_response,
            )
        except BaseException:
            self._session.fail()
            raise
        named = list(self._named(response))
        head = FetchResponseHead(
            error_code=response.error_code,
            session_id=response.session_id,
            throttle_time_ms=response.throttle_time,
            partitions=[name for name, _ in named],
        )
        if not self._session.receive(head):
            raise DisconnectedError(
                f"a Fetch response of broker {self._node_id} cannot be used: {self._session.problem}"
                f" ({error_text(response.error_code)})"
            )
        return FetchAnswer(
            partitions={name: _fetched(one) for name, one in named},
            size=sum(len(one.records) for _, one in named),
            has_new_leaders=self._learn(response, named),
        )

    def _values(self, request: SessionRequest, max_wait_ms: int) -> dict[str, Any]:
        return {
            "replica_id": _CONSUMER,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": self._max_bytes,
            "isolation_level": 0,
            "session_id": request.session_id,
            "session_epoch": request.session_epoch,
            "topics": [
                {"topic": topic, "topic_id": topic_id, "partitions": [_partition(*one) for one in group]}
                for (topic, topic_id), group in groupby(
                    request.partitions.items(), key=lambda item: (item[0].topic, item[1].topic_id)
                )
            ],
            "forgotten_topics_data": [
                {"topic": topic, "topic_id": topic_id, "partitions": [one.topic_partition.partition for one in group]}
                for (topic, topic_id), group in groupby(
                    request.forgotten, key=lambda one: (one.topic_partition.topic, one.topic_id)
                )
            ],
            "rack_id": "",
        }

    def _named(self, response: Fetched) -> Iterator[tuple[TopicPartition, ResponsePartition]]:
        """Yield the partitions with their names. A partition of an unknown topic id is left out."""
        for topic in response.responses:
            for one in topic.partitions:
                if topic.topic_id is None:
                    yield TopicPartition(topic.topic, one.partition_index), one
                elif (name := self._session.partition(topic.topic_id, one.partition_index)) is not None:
                    yield name, one

    def _learn(self, response: Fetched, named: Iterable[tuple[TopicPartition, ResponsePartition]]) -> bool:
        """Hand leader hints (KIP-951) to the client. Return True if there are any."""
        has_any = False
        for (topic, number), one in named:
            leader = one.current_leader
            if one.error_code and leader.leader_id >= 0:
                self._client.learn_leader(topic, number, leader.leader_id, leader.leader_epoch, response.node_endpoints)
                has_any = True
        return has_any


def _of_consumer(position: FetchPosition) -> FetchPosition:
    """Return the position without the log start, which only a follower's request has."""
    return FetchPosition(
        offset=position.offset,
        leader_epoch=position.leader_epoch,
        last_fetched_epoch=position.last_fetched_epoch,
        log_start_offset=UNKNOWN_OFFSET,
    )


def _partition(name: TopicPartition, wanted: WantedPartition) -> dict[str, int]:
    position = wanted.position
    return {
        "partition": name.partition,
        "current_leader_epoch": position.leader_epoch,
        "fetch_offset": position.offset,
        "last_fetched_epoch": position.last_fetched_epoch,
        "log_start_offset": position.log_start_offset,
        "partition_max_bytes": wanted.max_bytes,
    }


def _fetched(one: ResponsePartition) -> FetchedPartition:
    diverging = one.diverging_epoch
    return FetchedPartition(
        error_code=one.error_code,
        high_watermark=one.high_watermark,
        log_start_offset=one.log_start_offset,
        diverging_epoch=None if diverging == NO_DIVERGENCE else EpochEndOffset(diverging.epoch, diverging.end_offset),
        records=one.records,
    )
