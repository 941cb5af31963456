"""Topics with partitions, as requests about committed offsets name them and answers tell of each.

Called by: the handlers of committed offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tidelog.model import TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.groups.journal import Topics
from tidelog.server.groups.offsets.commits import OffsetToCommit

Results = Mapping[TopicPartition, ErrorCode]


def partitions_of(parts: Iterable[Struct]) -> list[TopicPartition]:
    """All that a request names."""
    return [TopicPartition(topic.name, part.partition_index) for topic in parts for part in topic.partitions]


def unknown_partitions(parts: Iterable[Struct], topics: Topics) -> dict[TopicPartition, ErrorCode]:
    """Those that there are not."""
    counts = {topic.name: topic.partitions for part in parts if (topic := topics.by_name(part.name)) is not None}
    return {
        partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions_of(parts)
        if not 0 <= partition.partition < counts.get(partition.topic, 0)
    }


def denied_partitions(parts: Iterable[Struct], allowed: Collection[str]) -> dict[TopicPartition, ErrorCode]:
    """Those of topics that are not among ``allowed``."""
    return {
        partition: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for partition in partitions_of(parts)
        if partition.topic not in allowed
    }


def offsets_to_commit(parts: Iterable[Struct], unknown: Results) -> list[OffsetToCommit]:
    """What a request wants to be committed for partitions that exist."""
    return [
        OffsetToCommit(partition, part.committed_offset, part.committed_leader_epoch, part.committed_metadata)
        for topic in parts
        for part in topic.partitions
        if (partition := TopicPartition(topic.name, part.partition_index)) not in unknown
    ]


def answered_topics(parts: Iterable[Struct], results: Results) -> list[dict[str, Any]]:
    """The topics of an answer, in the order of the request."""
    return [
        {
            "name": topic.name,
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
