"""Produce, v3 to v13, read and written without kio: each of a producer's batches is copied once on its way to the log.

Names and values are those that kio's messages have, so a handler may be given either. Topics have names up to v12, ids
from v13 on. Fields by version:

=========  =================================================================================================
version    fields
=========  =================================================================================================
3          request: transactional_id, acks, timeout, topics, partitions with records; response: up to
           log_append_time
5          response: log_start_offset
8          response: record_errors, error_message (KIP-467)
9          flexible
10         response: current_leader, node_endpoints (KIP-951), as tagged fields
13         topic ids (KIP-516)
=========  =================================================================================================

Source: Kafka's ``ProduceRequest.json``, ``ProduceResponse.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.field_reader import FieldReader, message_reader
from tidelog.protocol.field_writer import FieldWriter
from tidelog.protocol.leader_hints import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint, leader_field, node_field

OLDEST: Final = 3
LATEST: Final = 13
_LOG_START = 5
_RECORD_ERRORS = 8
_FLEXIBLE = 9
_LEADER_HINTS = 10
_TOPIC_IDS = 13

_ACKS_TIMEOUT = Struct(">hi")
_PARTITION = Struct(">ihqq")
_PARTITION_WITH_LOG_START = Struct(">ihqqq")
_APPENDED = Struct(">ihqqqBBB")
"""Of a partition in a flexible version, where there is nothing to say of records, leader and error: all of it."""
_NO_ITEMS, _NULL, _NO_TAGS = 1, 0, 0
_INT32 = Struct(">i")


class PartitionProduceData(NamedTuple):
    index: int  # type: ignore[assignment] # as the protocol calls it; nobody looks for an item
    records: bytearray | None


class TopicProduceData(NamedTuple):
    """``name`` or ``topic_id``, as the version has it."""

    name: str
    topic_id: UUID | None
    partition_data: list[PartitionProduceData]


class ProduceRequest(NamedTuple):
    """``timeout`` in ms."""

    transactional_id: str | None
    acks: int
    timeout: int
    topic_data: list[TopicProduceData]


class RecordError(NamedTuple):
    batch_index: int
    batch_index_error_message: str | None = None


class PartitionProduceResponse(NamedTuple):
    index: int  # type: ignore[assignment] # as above
    error_code: int = 0
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = UNKNOWN_LEADER


class TopicProduceResponse(NamedTuple):
    """``name`` or ``topic_id``, as the version has it."""

    name: str
    topic_id: UUID | None
    partition_responses: Sequence[PartitionProduceResponse]


@message_reader
def read_produce_request(version: int, body: memoryview) -> ProduceRequest:
    """MalformedMessageError for bytes that are no such request."""
    reader = FieldReader(body, is_flexible=version >= _FLEXIBLE)

    def partition() -> PartitionProduceData:
        data = PartitionProduceData(reader.int32(), reader.nullable_bytes())
        reader.tagged_fields()
        return data

    def topic() -> TopicProduceData:
        name, topic_id = ("", reader.uuid()) if version >= _TOPIC_IDS else (reader.string(), None)
        data = TopicProduceData(name, topic_id, reader.array(partition))
        reader.tagged_fields()
        return data

    transactional_id = reader.nullable_string()
    acks, timeout = reader.numbers(_ACKS_TIMEOUT)
    topics = reader.array(topic)
    reader.tagged_fields()
    return ProduceRequest(transactional_id, acks, timeout, topics)


def write_produce_response(
    version: int,
    responses: Sequence[TopicProduceResponse],
    throttle_time: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytearray:
    """What follows the header; ``throttle_time`` in ms."""
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    writer.length(len(responses))
    for topic in responses:
        if version >= _TOPIC_IDS:
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.length(len(topic.partition_responses))
        for partition in topic.partition_responses:
            _write_partition(writer, version, partition)
        writer.tagged_fields()
    writer.buffer += _INT32.pack(throttle_time)
    writer.tagged_fields([node_field(node_endpoints)] if node_endpoints and version >= _LEADER_HINTS else ())
    return writer.buffer


def _write_partition(writer: FieldWriter, version: int, partition: PartitionProduceResponse) -> None:
    index, error_code, base_offset, append_time, log_start, record_errors, message, leader = partition
    if version >= _FLEXIBLE and message is None and leader is UNKNOWN_LEADER and not record_errors:
        offsets = (base_offset, append_time, log_start)
        writer.buffer += _APPENDED.pack(index, error_code, *offsets, _NO_ITEMS, _NULL, _NO_TAGS)
        return
    if version >= _LOG_START:
        writer.buffer += _PARTITION_WITH_LOG_START.pack(index, error_code, base_offset, append_time, log_start)
    else:
        writer.buffer += _PARTITION.pack(index, error_code, base_offset, append_time)
    if version >= _RECORD_ERRORS:
        writer.length(len(record_errors))
        for error in record_errors:
            writer.buffer += _INT32.pack(error.batch_index)
            writer.string(error.batch_index_error_message)
            writer.tagged_fields()
        writer.string(message)
    has_leader = leader != UNKNOWN_LEADER and version >= _LEADER_HINTS
    writer.tagged_fields([leader_field(0, leader)] if has_leader else ())
