"""The requests of this broker to the active controller that change the metadata.

=====================  =============  ================================================================================
request                purpose        without a response
=====================  =============  ================================================================================
AlterPartition         alter-isr      raised after ``controller.socket.timeout.ms``: the caller proposes again
AllocateProducerIds    producer-ids   the same
CreateTopics           topics         the same: automatic and internal topics, as the broker's own principal
AssignReplicasToDirs   directories    repeated until the broker stops (``DirectoryAssignments``)
=====================  =============  ================================================================================

Thread rule: the event loop only. Source: Kafka's ``DefaultAlterPartitionManager``, ``RPCProducerIdManager``,
``DefaultAutoTopicCreationManager``.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Final

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, code_of
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.observer.controller_channel import ControllerChannel
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import AlteredPartition, NewTopic, Outcome, PartitionAlteration, TopicResult

_NOT_CHECKED: Final = -1
_CREATION_TIMEOUT_MS: Final = 30_000


class ControllerRequests:
    def __init__(
        self,
        channel: ControllerChannel,
        *,
        node_id: int,
        timeout_ms: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
    ) -> None:
        self._channel = channel
        self._node_id = node_id
        self._timeout_ms = timeout_ms
        self._broker_epoch = broker_epoch
        self._image = image

    async def alter_partitions(self, alterations: Sequence[PartitionAlteration]) -> list[AlteredPartition]:
        """Propose in-sync replicas. Raise ApiError for an error of the whole request, or ClientError."""
        values = {**self._own, "topics": _by_topic(alterations)}
        response = await self._ask(ApiKey.ALTER_PARTITION, values, "alter-isr")
        _require_no_error(response)
        parts = {(topic.topic_id, part.partition_index): part for topic in response.topics for part in topic.partitions}
        return [self._altered(one, parts.get((one.topic_id, one.partition))) for one in alterations]

    async def allocate_producer_ids(self) -> range:
        """Return a block of producer ids. Raise ApiError or ClientError."""
        response = await self._ask(ApiKey.ALLOCATE_PRODUCER_IDS, self._own, "producer-ids")
        _require_no_error(response)
        return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

    async def create_topics(self, topics: Sequence[NewTopic]) -> list[TopicResult]:
        """Create topics. Raise ClientError."""
        values = {
            "topics": [_topic_values(topic) for topic in topics],
            "timeout": _CREATION_TIMEOUT_MS,
            "validate_only": False,
        }
        response = await self._ask(ApiKey.CREATE_TOPICS, values, "topics", is_refused=_is_refused_creation)
        return [
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id or None,
                error=code_of(topic.error_code),
                message=topic.error_message,
                partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
            )
            for topic in response.topics
        ]

    async def assign_directories(
        self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]
    ) -> dict[tuple[uuid.UUID, int], ErrorCode]:
        """Report the directories of replicas, and return the replicas' errors. Raise ApiError or ClientError."""
        by_directory: dict[uuid.UUID, dict[uuid.UUID, list[int]]] = defaultdict(lambda: defaultdict(list))
        for (topic_id, partition), directory_id in directories.items():
            by_directory[directory_id][topic_id].append(partition)
        values = {**self._own, "directories": [_directory_values(*item) for item in by_directory.items()]}
        response = await self._ask(ApiKey.ASSIGN_REPLICAS_TO_DIRS, values, "directories")
        _require_no_error(response)
        return {
            (topic.topic_id, part.partition_index): code_of(part.error_code)
            for directory in response.directories
            for topic in directory.topics
            for part in topic.partitions
        }

    @property
    def _own(self) -> dict[str, Any]:
        return {"broker_id": self._node_id, "broker_epoch": self._broker_epoch()}

    async def _ask(self, api: ApiKey, values: Mapping[str, Any], purpose: str, **options: Any) -> Any:
        return await self._channel.ask(api, values, purpose=purpose, timeout_ms=self._timeout_ms, **options)

    def _altered(self, asked: PartitionAlteration, part: Any) -> AlteredPartition:
        if part is None:
            return AlteredPartition(Outcome(ErrorCode.UNKNOWN_SERVER_ERROR, "the response lacks the partition"), None)
        outcome = Outcome(code_of(part.error_code))
        topic = self._image().topics_by_id.get(asked.topic_id)
        known = None if topic is None else topic.partitions.get(asked.partition)
        return AlteredPartition(outcome, None if outcome.is_failure or known is None else _state(known, part))


def _state(known: PartitionState, part: Any) -> PartitionState:
    """Return the partition's state in the metadata with the fields of a response."""
    return replace(
        known,
        leader=part.leader_id,
        leader_epoch=part.leader_epoch,
        isr=tuple(part.isr),
        partition_epoch=part.partition_epoch,
    )


def _require_no_error(response: Any) -> None:
    error = code_of(response.error_code)
    if error is not ErrorCode.NONE:
        raise ApiError(error)


def _is_refused_creation(response: Any) -> bool:
    return any(topic.error_code == ErrorCode.NOT_CONTROLLER for topic in response.topics)


def _by_topic(alterations: Iterable[PartitionAlteration]) -> list[Mapping[str, Any]]:
    topics: dict[uuid.UUID, list[Mapping[str, Any]]] = defaultdict(list)
    for one in alterations:
        topics[one.topic_id].append(_alteration_values(one))
    return [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()]


def _alteration_values(one: PartitionAlteration) -> Mapping[str, Any]:
    return {
        "partition_index": one.partition,
        "leader_epoch": one.leader_epoch,
        "new_isr": one.isr,
        "new_isr_with_epochs": [
            {"broker_id": id_, "broker_epoch": epoch}
            for id_, epoch in zip(one.isr, one.broker_epochs or repeat(_NOT_CHECKED), strict=False)
        ],
        "leader_recovery_state": int(one.is_recovering),
        "partition_epoch": one.partition_epoch,
    }


def _directory_values(directory_id: uuid.UUID, topics: Mapping[uuid.UUID, Iterable[int]]) -> Mapping[str, Any]:
    return {
        "id_": directory_id,
        "topics": [
            {"topic_id": topic_id, "partitions": [{"partition_index": number} for number in numbers]}
            for topic_id, numbers in topics.items()
        ],
    }


def _topic_values(topic: NewTopic) -> Mapping[str, Any]:
    return {
        "name": topic.name,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "assignments": [{"partition_index": number, "broker_ids": brokers} for number, brokers in topic.assignments],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }
