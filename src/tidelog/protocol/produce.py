"""Produce, v3 to v13, read and written without kio: each batch is copied once on its way to the log.

Names and values are those of kio's messages, so a handler may get either. Topics have names up to v12, and ids from v13
on. Fields by version:

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

from tidelog.protocol.field_reader import FieldReader, message_reader, topic_id_of
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
"""A complete partition in a flexible version, without record errors, message and leader."""
_NO_ITEMS, _NULL, _NO_TAGS = 1, 0, 0
_ONE_ITEM = 2
"""The encoded length of an array with one item."""
_SINGLE = Struct(">BhiB16sBi")
"""A request with topic ids up to its first records: transactional id, acks, timeout, topics, topic id, partitions,
index."""
_BEHIND_ALONE = bytes(3)
"""The bytes after the only records of a request: empty tags of the partition, the topic and the request."""
_APPENDED_ALONE = Struct(">B16sBihqqqBBBBiB")
"""A complete response with topic ids for one partition, without record errors, message and leader."""
_INT32 = Struct(">i")


class PartitionProduceData(NamedTuple):
    index: int  # type: ignore[assignment] # the protocol's name; it hides ``tuple.index``, which is not used
    records: bytearray | None


class TopicProduceData(NamedTuple):
    """A topic. Depending on the version it has ``name`` or ``topic_id``."""

    name: str
    topic_id: UUID | None
    partition_data: list[PartitionProduceData]


class ProduceRequest(NamedTuple):
    """A request. ``timeout`` is in ms."""

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
    """A topic. Depending on the version it has ``name`` or ``topic_id``."""

    name: str
    topic_id: UUID | None
    partition_responses: Sequence[PartitionProduceResponse]


@message_reader
def read_produce_request(version: int, body: memoryview) -> ProduceRequest:
    """Decode a request. Raise MalformedMessageError if the bytes are not one."""
    if version >= _TOPIC_IDS and len(body) > _SINGLE.size and (alone := _read_single_partition(body)) is not None:
        return alone
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


def _read_single_partition(body: memoryview) -> ProduceRequest | None:
    """Decode a request with one partition and no transaction, as most are. Return None for any other."""
    transactional_id, acks, timeout, topics, raw_id, partitions, index = _SINGLE.unpack_from(body)
    if transactional_id != _NULL or topics != _ONE_ITEM or partitions != _ONE_ITEM:
        return None
    reader = FieldReader(body, is_flexible=True)
    reader.position = _SINGLE.size
    records = reader.nullable_bytes()
    if body[reader.position :] != _BEHIND_ALONE:
        return None
    topic = TopicProduceData("", topic_id_of(raw_id), [PartitionProduceData(index, records)])
    return ProduceRequest(None, acks, timeout, [topic])


def write_produce_response(
    version: int,
    responses: Sequence[TopicProduceResponse],
    throttle_time: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytearray:
    """Encode the bytes after the header; ``throttle_time`` is in ms."""
    if version >= _TOPIC_IDS and len(responses) == 1 and not node_endpoints:
        (topic,) = responses
        if len(topic.partition_responses) == 1 and _says_offsets_only(topic.partition_responses[0]):
            return _write_alone(topic, throttle_time)
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


def _says_offsets_only(partition: PartitionProduceResponse) -> bool:
    _, _, _, _, _, record_errors, message, leader = partition
    return message is None and leader is UNKNOWN_LEADER and not record_errors


def _write_alone(topic: TopicProduceResponse, throttle_time: int) -> bytearray:
    numbers = topic.partition_responses[0][:5]
    raw_id = bytes(16) if topic.topic_id is None else topic.topic_id.bytes
    ends = (_NO_ITEMS, _NULL, _NO_TAGS, _NO_TAGS, throttle_time, _NO_TAGS)
    return bytearray(_APPENDED_ALONE.pack(_ONE_ITEM, raw_id, _ONE_ITEM, *numbers, *ends))


def _write_partition(writer: FieldWriter, version: int, partition: PartitionProduceResponse) -> None:
    index, error_code, base_offset, append_time, log_start, record_errors, message, leader = partition
    if version >= _FLEXIBLE and _says_offsets_only(partition):
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
