"""The requests of a mirror to its source.

A part of the source that this client may not read is a ``Denied``: a value with the reason, because a copy without
settings or ACLs is still a copy. Everything else that fails raises an error. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.client.connection.connection import Encoder
from tidelog.client.model.backoff import Backoff
from tidelog.client.model.errors import ClientError
from tidelog.mirroring.source.source_topics import SourceTopics, TopicSelection
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, error_text
from tidelog.protocol.fetch_response import Fetched, read_fetch_response
from tidelog.replication.follower_commands import NamedOffset
from tidelog.replication.follower_events import ListedPartition
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.config_entry import ConfigSource
from tidelog.server.configs.resource_type import ResourceType

_TOPICS_A_REQUEST: Final = 500
_WITH_OPERATIONS: Final = 8
"""The first version of Metadata with the operations that the client may do."""
_ALL_OPERATIONS: Final = -(2**31)
"""The value of a source that does not tell."""
_WITH_DIVERGENCE: Final = 12
"""The first version of Fetch in which the leader compares epochs."""
_LAST_WITH_NAMES: Final = 12
_DENIALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_RETRY: Final = Backoff(initial_ms=100, max_ms=1_000)


@dataclass(frozen=True, slots=True)
class Denied:
    """A part of the source that cannot be read."""

    reason: str


class SourceCluster:
    def __init__(self, client: ClusterClient) -> None:
        self.client = client

    async def topics(self, selection: TopicSelection) -> SourceTopics:
        """Return the selected topics as they are now. Raise ClientError or UnsupportedFormatError."""
        return SourceTopics.of(await self.client.refresh(None), selection)

    async def unreadable(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the topics that this client may describe but not read."""
        found = set()
        for part in _parts(list(topics)):
            values = {
                "topics": [{"name": name} for name in part],
                "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": True,
            }
            response = await self.client.send_to_any(ApiKey.METADATA, values, at_least=_WITH_OPERATIONS)
            for topic in response.topics:
                operations = topic.topic_authorized_operations
                if operations != _ALL_OPERATIONS and not operations >> Operation.READ & 1:
                    found.add(topic.name)
        return frozenset(found)

    # --- offsets ---

    async def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: NamedOffset
    ) -> dict[TopicPartition, ListedPartition]:
        """Return the offsets, or errors, of partitions by one request to each leader."""
        by_leader: dict[int, list[tuple[TopicPartition, int]]] = {}
        listed: dict[TopicPartition, ListedPartition] = {}
        for partition in partitions:
            leader = self.client.metadata.leader_of(*partition)
            if leader is None:
                listed[partition] = ListedPartition(error_code=ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                by_leader.setdefault(leader.leader_id, []).append((partition, leader.leader_epoch))
        for found in await asyncio.gather(
            *(self.list_offsets(node_id, wanted, timestamp) for node_id, wanted in by_leader.items())
        ):
            listed.update(found)
        return listed

    async def settled_offsets(
        self, partitions: Sequence[TopicPartition], timestamp: NamedOffset, *, timeout_s: float = 30.0
    ) -> dict[TopicPartition, ListedPartition]:
        """Return the offsets, and ask again for those with an error until the timeout. The rest keeps its error."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        listed = await self.offsets(partitions, timestamp)
        failures = 0
        while left := [one for one, answer in listed.items() if answer.error_code in _TEMPORARY]:
            failures += 1
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(_RETRY.delay_ms(failures) / 1000)
            try:
                await self.client.refresh({partition.topic for partition in left})
            except ClientError as error:
                if not error.is_retriable:
                    raise
            listed.update(await self.offsets(left, timestamp))
        return listed

    async def list_offsets(
        self, node_id: int, wanted: Sequence[tuple[TopicPartition, int]], timestamp: NamedOffset
    ) -> dict[TopicPartition, ListedPartition]:
        """Return the offsets of partitions, each with its leader epoch, of one leader."""
        topics = [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": partition.partition,
                        "current_leader_epoch": epoch,
                        "timestamp": int(timestamp),
                    }
                    for partition, epoch in group
                ],
            }
            for name, group in groupby(sorted(wanted), key=lambda pair: pair[0].topic)
        ]
        values = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        try:
            response = await self.client.send(node_id, ApiKey.LIST_OFFSETS, values)
        except ClientError as error:
            if not error.is_retriable:
                raise
            return {partition: ListedPartition(error_code=error.code) for partition, _epoch in wanted}
        return {
            TopicPartition(topic.name, one.partition_index): ListedPartition(
                error_code=one.error_code, offset=one.offset
            )
            for topic in response.topics
            for one in topic.partitions
        }

    async def fetch(self, node_id: int, purpose: str, request: Encoder, *, uses_topic_ids: bool) -> Fetched:
        """Send a Fetch request to a leader. Raise ClientError."""
        response: Fetched = await self.client.send(
            node_id,
            ApiKey.FETCH,
            request,
            purpose=purpose,
            at_least=_WITH_DIVERGENCE,
            at_most=None if uses_topic_ids else _LAST_WITH_NAMES,
            decode=read_fetch_response,
        )
        return response

    async def sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int] | Denied:
        """Return the bytes of each partition at its leader, from the brokers' log directories."""
        metadata, wanted = self.client.metadata, frozenset(topics)
        found: dict[TopicPartition, int] = {}
        for node_id in metadata.nodes:
            requested = [
                {"topic": name, "partitions": led}
                for name in sorted(wanted & metadata.topics.keys())
                if (
                    led := [
                        one.partition for one in metadata.topics[name].partitions.values() if one.leader_id == node_id
                    ]
                )
            ]
            if not requested:
                continue
            try:
                response = await self.client.send(node_id, ApiKey.DESCRIBE_LOG_DIRS, {"topics": requested})
            except ClientError as error:
                return Denied(str(error))
            if response.error_code:
                return Denied(error_text(response.error_code))
            for directory in response.results:
                if directory.error_code:
                    return Denied(error_text(directory.error_code))
                for topic in directory.topics:
                    for one in topic.partitions:
                        if not one.is_future_key:
                            found[TopicPartition(topic.name, one.partition_index)] = one.partition_size
        return found

    # --- settings ---

    async def settings(self, topics: Iterable[str]) -> dict[str, dict[str, str] | Denied]:
        """Return the settings of topics that differ from Kafka's defaults: the topics' own and the brokers'."""
        found: dict[str, dict[str, str] | Denied] = {}
        for part in _parts(list(topics)):
            values = {
                "resources": [
                    {"resource_type": int(ResourceType.TOPIC), "resource_name": name, "configuration_keys": None}
                    for name in part
                ]
            }
            try:
                response = await self.client.send_to_any(ApiKey.DESCRIBE_CONFIGS, values, at_least=1)
            except ClientError as error:
                found |= dict.fromkeys(part, Denied(str(error)))
                continue
            for result in response.results:
                found[result.resource_name] = (
                    Denied(error_text(result.error_code)) if result.error_code else _settings_of(result.configs)
                )
        return found

    async def acls(self) -> list[Acl] | Denied:
        """Return all ACLs. Raise ApiError if the source fails otherwise than by refusing."""
        values = {
            "resource_type_filter": int(AclResourceType.ANY),
            "resource_name_filter": None,
            "pattern_type_filter": int(PatternType.ANY),
            "principal_filter": None,
            "host_filter": None,
            "operation": int(Operation.ANY),
            "permission_type": int(Permission.ANY),
        }
        try:
            response = await self.client.send_to_any(ApiKey.DESCRIBE_ACLS, values)
        except ClientError as error:
            return Denied(str(error))
        if response.error_code in _DENIALS:
            return Denied(response.error_message or error_text(response.error_code))
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), response.error_message or "the ACLs cannot be read")
        return [
            Acl(
                pattern=Pattern(
                    AclResourceType.of(resource.resource_type),
                    resource.resource_name,
                    PatternType.of(resource.pattern_type),
                ),
                principal=one.principal,
                host=one.host,
                operation=Operation.of(one.operation),
                permission=Permission.of(one.permission_type),
            )
            for resource in response.resources
            for one in resource.acls
        ]


_TEMPORARY: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


def _settings_of(configs: Iterable[Any]) -> dict[str, str]:
    return {
        one.name: one.value
        for one in configs
        if one.value is not None and not one.is_sensitive and one.config_source != ConfigSource.DEFAULT
    }


def _parts(names: list[str]) -> Iterable[list[str]]:
    return (names[start : start + _TOPICS_A_REQUEST] for start in range(0, len(names), _TOPICS_A_REQUEST))


def readable(settings: Mapping[str, dict[str, str] | Denied], topic: str) -> dict[str, str] | None:
    """Return a topic's settings, or None if they are unknown."""
    found = settings.get(topic)
    return found if isinstance(found, dict) else None
