"""Topics with partitions, as requests about committed offsets name them and answers tell of each.

Called by: the handlers of committed offsets.
"""

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
    """What a request says of a topic that it names by its id; such requests began with Kafka 4.1 (KIP-848)."""

    topic_id: uuid.UUID | None
    name: str
    """Empty where no topic has the id."""
    partitions: Sequence[Struct]


Part = Struct | IdentifiedPart


def identified_parts(parts: Iterable[Struct], topics: Topics | None) -> list[IdentifiedPart]:
    """``topics``: where the names are found; None leaves them empty."""
    found = []
    for part in parts:
        topic = None if topics is None or part.topic_id is None else topics.by_id(part.topic_id)
        found.append(IdentifiedPart(part.topic_id, "" if topic is None else topic.name, part.partitions))
    return found


def has_unknown_id(part: Part) -> bool:
    return isinstance(part, IdentifiedPart) and not part.name


def partitions_of(parts: Iterable[Part]) -> list[TopicPartition]:
    """All that a request names."""
    return [TopicPartition(topic.name, part.partition_index) for topic in parts for part in topic.partitions]


def unknown_partitions(parts: Sequence[Part], topics: Topics) -> dict[TopicPartition, ErrorCode]:
    """Those that there are not, and those of ids that no topic has."""
    counts = {topic.name: topic.partitions for part in parts if (topic := topics.by_name(part.name)) is not None}
    return {
        partition: ErrorCode.UNKNOWN_TOPIC_ID if has_unknown_id(part) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for part in parts
        for partition in partitions_of([part])
        if not 0 <= partition.partition < counts.get(partition.topic, 0)
    }


def denied_partitions(parts: Iterable[Part], allowed: Collection[str]) -> dict[TopicPartition, ErrorCode]:
    """Those of topics that are not among ``allowed``."""
    return {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for part in parts
        if part.name not in allowed and not has_unknown_id(part)
        for partition in partitions_of([part])
    }


def offsets_to_commit(parts: Iterable[Part], unknown: Results) -> list[OffsetToCommit]:
    """What a request wants to be committed for partitions that exist."""
    return [
        OffsetToCommit(partition, part.committed_offset, part.committed_leader_epoch, part.committed_metadata)
        for topic in parts
        for part in topic.partitions
        if (partition := TopicPartition(topic.name, part.partition_index)) not in unknown
    ]


def answered_topics(parts: Iterable[Part], results: Results) -> list[dict[str, Any]]:
    """The topics of an answer, in the order of the request."""
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
