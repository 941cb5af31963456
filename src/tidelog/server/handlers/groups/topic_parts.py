"""The topics and partitions in requests and responses of the offset APIs."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.groups.journal import Topics
from tidelog.server.groups.offsets.commits import OffsetToCommit

Results = Mapping[TopicPartition, ErrorCode]


class IdentifiedPart(NamedTuple):
    """A request's partitions of a topic that it names by id (KIP-848, Kafka 4.1 and later)."""

    topic_id: uuid.UUID | None
    name: str
    """The name, or empty if no topic has the id."""
    partitions: Sequence[Struct]


Part = Struct | IdentifiedPart


def identified_parts(parts: Iterable[Struct], topics: Topics | None) -> list[IdentifiedPart]:
    """Return the parts with their topics' names. If ``topics`` is None, the names stay empty."""
    found = []
    for part in parts:
        topic = None if topics is None or part.topic_id is None else topics.by_id(part.topic_id)
        found.append(IdentifiedPart(part.topic_id, "" if topic is None else topic.name, part.partitions))
    return found


def has_unknown_id(part: Part) -> bool:
    return isinstance(part, IdentifiedPart) and not part.name


def partitions_of(parts: Iterable[Part]) -> list[TopicPartition]:
    """Return all partitions that a request names."""
    return [TopicPartition(topic.name, part.partition_index) for topic in parts for part in topic.partitions]


def unknown_partitions(parts: Sequence[Part], topics: Topics) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of partitions that do not exist and of unknown topic ids."""
    counts = {topic.name: topic.partitions for part in parts if (topic := topics.by_name(part.name)) is not None}
    return {
        partition: ErrorCode.UNKNOWN_TOPIC_ID if has_unknown_id(part) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for part in parts
        for partition in partitions_of([part])
        if not 0 <= partition.partition < counts.get(partition.topic, 0)
    }


def denied_partitions(parts: Iterable[Part], allowed: Collection[str]) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of the partitions whose topics are not ``allowed``."""
    return {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for part in parts
        if part.name not in allowed and not has_unknown_id(part)
        for partition in partitions_of([part])
    }


def offsets_to_commit(parts: Iterable[Part], unknown: Results) -> list[OffsetToCommit]:
    """Return the offsets to commit, without those of ``unknown`` partitions."""
    return [
        OffsetToCommit(partition, part.committed_offset, part.committed_leader_epoch, part.committed_metadata)
        for topic in parts
        for part in topic.partitions
        if (partition := TopicPartition(topic.name, part.partition_index)) not in unknown
    ]


def answered_topics(parts: Iterable[Part], results: Results) -> list[dict[str, Any]]:
    """Return the response's topics in request order."""
    return [
        {
            **({"topic_id": topic.topic_id} if isinstance(topic, IdentifiedPart) else {"name": topic.name}),
            "partitions": [
                {
                    "partition_index": part.partition_index,
                    "error_code": results[TopicPartition(topic.name, part.partition_index)],
                }
                for part in topic.partitions
            ],
        }
        for topic in parts
    ]
