"""Fetch requests to one leader, in a fetch session.

The records of a response stay where they were received. After any failure the next request is a full one. A broker
fetches as a replica, with its id and its broker epoch. The mirror fetches as a consumer, which has no log start.
Thread rule: the event loop only, one request at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from tidelog.client.connection.connection import Encoder
from tidelog.client.model.errors import DisconnectedError
from tidelog.model import TopicPartition
from tidelog.protocol.errors import error_text
from tidelog.protocol.fetch import (
    NO_DIVERGENCE,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
    write_fetch_request,
)
from tidelog.protocol.fetch_response import Fetched
from tidelog.protocol.fetch_response import FetchedPartition as ResponsePartition
from tidelog.protocol.leader_hints import LeaderIdAndEpoch, NodeEndpoint
from tidelog.replication.fetch_session_handler import (
    FetchResponseHead,
    FetchSessionHandler,
    SessionRequest,
    WantedPartition,
)
from tidelog.replication.follower_events import UNKNOWN_OFFSET, FetchedPartition, FetchPosition
from tidelog.storage.epoch import EpochEndOffset

CONSUMER: Final = -1
"""The replica id of a consumer."""


class SendFetch(Protocol):
    """Sends a Fetch request to the leader. ``uses_topic_ids`` allows version 13 and later."""

    async def __call__(self, request: Encoder, *, uses_topic_ids: bool) -> Fetched:
        """Raise ClientError if there is no response."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchFields:
    """The fields of a Fetch request that belong to the fetching side."""

    replica_id: int = CONSUMER
    broker_epoch: int = -1
    min_bytes: int = 1
    max_bytes: int
    """The most bytes of a response."""
    partition_max_bytes: int
    """The most bytes of a partition. A larger batch still comes."""


class LeaderHint(NamedTuple):
    """A new leader that an error of a response names (KIP-951)."""

    partition: TopicPartition
    leader: LeaderIdAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """The partitions of a response. A partition without news is missing."""

    partitions: Mapping[TopicPartition, FetchedPartition]
    size: int
    """The bytes of all records."""
    hints: Sequence[LeaderHint] = ()
    endpoints: Sequence[NodeEndpoint] = ()
    """The addresses of the leaders in ``hints``."""


class Wanted(NamedTuple):
    """A partition to fetch."""

    position: FetchPosition
    topic_id: uuid.UUID | None


class FetchExchange:
    def __init__(self, leader: str, send: SendFetch, fields: Callable[[], FetchFields]) -> None:
        """``leader`` names the broker in errors and log lines. ``fields`` returns the fields of the next request."""
        self.leader = leader
        self._send = send
        self._fields = fields
        self._session = FetchSessionHandler()

    async def fetch(self, wanted: Mapping[TopicPartition, Wanted], *, max_wait_ms: int) -> FetchAnswer:
        """Fetch from the positions. Raise ClientError, also for an unusable response."""
        fields = self._fields()
        request = self._session.next_request(
            {
                partition: WantedPartition(
                    position=one.position if fields.replica_id >= 0 else _of_consumer(one.position),
                    max_bytes=fields.partition_max_bytes,
                    topic_id=one.topic_id,
                )
                for partition, one in wanted.items()
            }
        )
        try:
            response = await self._send(_encoded(request, fields, max_wait_ms), uses_topic_ids=request.uses_topic_ids)
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
                f"a Fetch response of {self.leader} cannot be used: {self._session.problem}"
                f" ({error_text(response.error_code)})"
            )
        return FetchAnswer(
            partitions={name: _fetched(one) for name, one in named},
            size=sum(len(one.records) for _, one in named),
            hints=[
                LeaderHint(name, one.current_leader)
                for name, one in named
                if one.error_code and one.current_leader.leader_id >= 0
            ],
            endpoints=response.node_endpoints,
        )

    def _named(self, response: Fetched) -> Iterator[tuple[TopicPartition, ResponsePartition]]:
        """Yield the partitions with their names. A partition of an unknown topic id is left out."""
        for topic in response.responses:
            for one in topic.partitions:
                if topic.topic_id is None:
                    yield TopicPartition(topic.topic, one.partition_index), one
                elif (name := self._session.partition(topic.topic_id, one.partition_index)) is not None:
                    yield name, one


def _encoded(request: SessionRequest, fields: FetchFields, max_wait_ms: int) -> Encoder:
    """Return the encoder of the request."""
    message = FetchRequest(
        replica_state=ReplicaState(fields.replica_id, fields.broker_epoch),
        max_wait=max_wait_ms,
        min_bytes=fields.min_bytes,
        max_bytes=fields.max_bytes,
        isolation_level=0,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=[
            FetchTopic(topic, topic_id, [_partition(*one) for one in group])
            for (topic, topic_id), group in groupby(
                request.partitions.items(), key=lambda item: (item[0].topic, item[1].topic_id)
            )
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic, topic_id, [one.topic_partition.partition for one in group])
            for (topic, topic_id), group in groupby(
                request.forgotten, key=lambda one: (one.topic_partition.topic, one.topic_id)
            )
        ],
        rack_id="",
    )
    return lambda version: write_fetch_request(version, message)


def _of_consumer(position: FetchPosition) -> FetchPosition:
    """Return the position without the log start, which only a follower's request has."""
    return FetchPosition(
        offset=position.offset,
        leader_epoch=position.leader_epoch,
        last_fetched_epoch=position.last_fetched_epoch,
        log_start_offset=UNKNOWN_OFFSET,
    )


def _partition(name: TopicPartition, wanted: WantedPartition) -> FetchPartition:
    position = wanted.position
    return FetchPartition(
        partition=name.partition,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_fetched_epoch,
        log_start_offset=position.log_start_offset,
        partition_max_bytes=wanted.max_bytes,
    )


def _fetched(one: ResponsePartition) -> FetchedPartition:
    diverging = one.diverging_epoch
    return FetchedPartition(
        error_code=one.error_code,
        high_watermark=one.high_watermark,
        log_start_offset=one.log_start_offset,
        diverging_epoch=None if diverging == NO_DIVERGENCE else EpochEndOffset(diverging.epoch, diverging.end_offset),
        records=one.records,
    )
