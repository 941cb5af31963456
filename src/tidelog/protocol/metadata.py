"""Metadata responses, v0 to v13, written without kio: one response has thousands of partitions.

Names and values are those of kio's messages. Fields by version:

=========  =================================================================================================
version    fields
=========  =================================================================================================
0          brokers; topics with error, name and partitions: error, index, leader, replicas, in-sync replicas
1          racks, controller_id, is_internal
2          cluster_id
3          throttle_time
5          offline_replicas
7          leader_epoch
8          topic_authorized_operations; cluster_authorized_operations, up to v10
9          flexible
10         topic_id
13         error_code of the whole response
=========  =================================================================================================

``write_partition`` encodes a topic's partitions beforehand, because many partitions have equal bytes, and
``write_topics`` the topics, because many responses have the same. Source: Kafka's ``MetadataResponse.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.field_writer import FieldWriter

OLDEST: Final = 0
LATEST: Final = 13
_INTERNAL = 1
_CLUSTER_ID = 2
_THROTTLE = 3
_OFFLINE = 5
_LEADER_EPOCH = 7
_OPERATIONS = 8
_FLEXIBLE = 9
_TOPIC_IDS = 10
_CLUSTER_OPERATIONS = range(8, 11)
_ERROR_CODE = 13

NOT_REQUESTED: Final = -(2**31)
"""The value of authorized operations in a response whose request did not ask for them (KIP-430)."""
_INT16, _INT32 = Struct(">h"), Struct(">i")
_PARTITION = Struct(">hii")


class MetadataResponseBroker(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class MetadataResponsePartition(NamedTuple):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int]


class MetadataResponseTopic(NamedTuple):
    """A topic. ``partitions`` has the results of ``write_partition``."""

    error_code: int = 0
    name: str | None = None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[bytes] = ()
    topic_authorized_operations: int = NOT_REQUESTED


class MetadataResponse(NamedTuple):
    """A response. ``topics`` is the result of ``write_topics``."""

    brokers: Sequence[MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: bytes
    cluster_authorized_operations: int = NOT_REQUESTED
    error_code: int = 0
    throttle_time: int = 0
    """The time in ms."""


def write_metadata_response(version: int, response: MetadataResponse) -> bytearray:
    """Encode the bytes after the header."""
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    buffer = writer.buffer
    if version >= _THROTTLE:
        buffer += _INT32.pack(response.throttle_time)
    writer.length(len(response.brokers))
    for broker in response.brokers:
        _write_broker(writer, version, broker)
    if version >= _CLUSTER_ID:
        writer.string(response.cluster_id)
    if version >= _INTERNAL:
        buffer += _INT32.pack(response.controller_id)
    buffer += response.topics
    if version in _CLUSTER_OPERATIONS:
        buffer += _INT32.pack(response.cluster_authorized_operations)
    if version >= _ERROR_CODE:
        buffer += _INT16.pack(response.error_code)
    writer.tagged_fields()
    return buffer


def write_topics(version: int, topics: Sequence[MetadataResponseTopic]) -> bytes:
    """Encode the topics of a response of this version, with their number."""
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    writer.length(len(topics))
    for topic in topics:
        _write_topic(writer, version, topic)
    return bytes(writer.buffer)


def write_partition(version: int, partition: MetadataResponsePartition) -> bytes:
    """Encode a partition for the ``partitions`` of a topic in a response of this version."""
    error_code, index, leader, leader_epoch, replicas, isr, offline = partition
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    writer.buffer += _PARTITION.pack(error_code, index, leader)
    if version >= _LEADER_EPOCH:
        writer.buffer += _INT32.pack(leader_epoch)
    for nodes in (replicas, isr, offline) if version >= _OFFLINE else (replicas, isr):
        writer.length(len(nodes))
        writer.buffer += b"".join(map(_INT32.pack, nodes))
    writer.tagged_fields()
    return bytes(writer.buffer)


def _write_broker(writer: FieldWriter, version: int, broker: MetadataResponseBroker) -> None:
    writer.buffer += _INT32.pack(broker.node_id)
    writer.string(broker.host)
    writer.buffer += _INT32.pack(broker.port)
    if version >= _INTERNAL:
        writer.string(broker.rack)
    writer.tagged_fields()


def _write_topic(writer: FieldWriter, version: int, topic: MetadataResponseTopic) -> None:
    buffer = writer.buffer
    buffer += _INT16.pack(topic.error_code)
    writer.string(topic.name)
    if version >= _TOPIC_IDS:
        writer.uuid(topic.topic_id)
    if version >= _INTERNAL:
        buffer.append(topic.is_internal)
    writer.length(len(topic.partitions))
    buffer += b"".join(topic.partitions)
    if version >= _OPERATIONS:
        buffer += _INT32.pack(topic.topic_authorized_operations)
    writer.tagged_fields()
