"""Fetch, v4 to v18, read and written without kio: records stay in their files until they are sent.

Names and values are those of kio's messages, so a handler may get either. A response is written as parts: bytes, and
between them the records as the handler passed them. Fields by version:

=========  =================================================================================================
version    fields
=========  =================================================================================================
4          request: replica_id, max_wait, min_bytes, max_bytes, isolation_level, partitions with offset and
           maximum; response: up to aborted_transactions
5          log_start_offset in both
7          sessions (KIP-227): session_id, session_epoch, forgotten topics
9          request: current_leader_epoch (KIP-320)
11         request: rack_id; response: preferred_read_replica (KIP-392)
12         flexible; request: last_fetched_epoch; response: diverging_epoch, current_leader (KIP-595)
13         topic ids (KIP-516)
15         request: replica_state replaces replica_id (KIP-903)
16         response: node_endpoints (KIP-951)
17, 18     request: replica_directory_id, high_watermark of followers, which are ignored here
=========  =================================================================================================

Source: Kafka's ``FetchRequest.json``, ``FetchResponse.json``.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.field_reader import FieldReader, message_reader
from tidelog.protocol.field_writer import FieldWriter
from tidelog.protocol.leader_hints import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint, leader_field, node_field

OLDEST: Final = 4
LATEST: Final = 18
_LOG_START = 5
_SESSIONS = 7
_CURRENT_EPOCH = 9
_RACK = 11
_FLEXIBLE = 12
_TOPIC_IDS = 13
_REPLICA_STATE = 15
_NODES = 16

_NO_SESSION_EPOCH = -1
_INT32 = Struct(">i")
_REQUEST = Struct(">iiib")
_SESSION = Struct(">ii")
_REPLICA = Struct(">iq")
_REQUEST_PARTITIONS = {
    4: Struct(">iqi"),
    _LOG_START: Struct(">iqqi"),
    _CURRENT_EPOCH: Struct(">iiqqi"),
    _FLEXIBLE: Struct(">iiqiqi"),
}
"""The fixed fields of a partition by their first version."""
_THROTTLE = Struct(">i")
_THROTTLE_AND_SESSION = Struct(">ihi")
_PARTITION = Struct(">ihqq")
_PARTITION_WITH_LOG_START = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_DIVERGING = Struct(">iqB")


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int


class FetchTopic(NamedTuple):
    """A topic. Depending on the version it has ``topic`` or ``topic_id``."""

    topic: str
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """A topic. Depending on the version it has ``topic`` or ``topic_id``."""

    topic: str
    topic_id: UUID | None
    partitions: list[int]


class ReplicaState(NamedTuple):
    """The fetching replica; -1 is a consumer."""

    replica_id: int = -1
    replica_epoch: int = -1


class FetchRequest(NamedTuple):
    """A request. ``max_wait`` is in ms. ``replica_state`` has the replica in every version."""

    replica_state: ReplicaState
    max_wait: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]
    rack_id: str


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class DivergingEpoch(NamedTuple):
    epoch: int = -1
    end_offset: int = -1


NO_DIVERGENCE: Final = DivergingEpoch()


class PartitionData(NamedTuple):
    """A partition's result. ``aborted_transactions`` is None for a client that did not ask for them."""

    partition_index: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: Sized = b""
    """The batches: bytes, or a value of that length which is not in memory."""
    diverging_epoch: DivergingEpoch = NO_DIVERGENCE
    current_leader: LeaderIdAndEpoch = UNKNOWN_LEADER


class FetchableTopicResponse(NamedTuple):
    """A topic. Depending on the version it has ``topic`` or ``topic_id``."""

    topic: str
    topic_id: UUID | None
    partitions: Sequence[PartitionData]


class FetchResponse(NamedTuple):
    responses: Sequence[FetchableTopicResponse]
    error_code: int = 0
    session_id: int = 0
    throttle_time: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()


@message_reader
def read_fetch_request(version: int, body: memoryview) -> FetchRequest:
    """Decode a request. Raise MalformedMessageError if the bytes are not one."""
    reader = FieldReader(body, is_flexible=version >= _FLEXIBLE)
    replica = ReplicaState() if version >= _REPLICA_STATE else ReplicaState(reader.int32())
    max_wait, min_bytes, max_bytes, isolation_level = reader.numbers(_REQUEST)
    session_id, session_epoch = reader.numbers(_SESSION) if version >= _SESSIONS else (0, _NO_SESSION_EPOCH)
    topics = reader.array(lambda: _read_topic(reader, version))
    forgotten = reader.array(lambda: _read_forgotten(reader, version)) if version >= _SESSIONS else []
    rack_id = reader.string() if version >= _RACK else ""

    def replica_state() -> None:
        nonlocal replica
        replica = ReplicaState(*reader.numbers(_REPLICA))

    reader.tagged_fields({1: replica_state} if version >= _REPLICA_STATE else None)
    return FetchRequest(
        replica,
        max_wait,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )


def write_fetch_request(version: int, request: FetchRequest) -> bytes:
    """Encode a request. Fields that the version lacks are left out."""
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    replica = request.replica_state
    if version < _REPLICA_STATE:
        writer.buffer += _INT32.pack(replica.replica_id)
    writer.buffer += _REQUEST.pack(request.max_wait, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= _SESSIONS:
        writer.buffer += _SESSION.pack(request.session_id, request.session_epoch)
    writer.length(len(request.topics))
    for topic in request.topics:
        _write_topic_name(writer, version, topic)
        writer.length(len(topic.partitions))
        for wanted in topic.partitions:
            _write_wanted(writer, version, wanted)
        writer.tagged_fields()
    if version >= _SESSIONS:
        writer.length(len(request.forgotten_topics_data))
        for forgotten in request.forgotten_topics_data:
            _write_topic_name(writer, version, forgotten)
            writer.length(len(forgotten.partitions))
            for number in forgotten.partitions:
                writer.buffer += _INT32.pack(number)
            writer.tagged_fields()
    if version >= _RACK:
        writer.string(request.rack_id)
    has_replica = version >= _REPLICA_STATE and replica != ReplicaState()
    writer.tagged_fields([(1, _REPLICA.pack(*replica) + bytes(1))] if has_replica else ())
    return bytes(writer.buffer)


def write_fetch_response(version: int, response: FetchResponse) -> list[Sized]:
    """Encode the bytes after the header, as consecutive parts."""
    parts: list[Sized] = []
    writer = FieldWriter(is_flexible=version >= _FLEXIBLE)
    if version >= _SESSIONS:
        writer.buffer += _THROTTLE_AND_SESSION.pack(response.throttle_time, response.error_code, response.session_id)
    else:
        writer.buffer += _THROTTLE.pack(response.throttle_time)
    writer.length(len(response.responses))
    for topic in response.responses:
        _write_topic_name(writer, version, topic)
        writer.length(len(topic.partitions))
        for partition in topic.partitions:
            _write_partition(writer, version, partition, parts)
        writer.tagged_fields()
    nodes = response.node_endpoints
    writer.tagged_fields([node_field(nodes)] if nodes and version >= _NODES else ())
    parts.append(bytes(writer.buffer))
    return parts


def _topic_name(reader: FieldReader, version: int) -> tuple[str, UUID | None]:
    return ("", reader.uuid()) if version >= _TOPIC_IDS else (reader.string(), None)


def _read_topic(reader: FieldReader, version: int) -> FetchTopic:
    name, topic_id = _topic_name(reader, version)
    topic = FetchTopic(name, topic_id, reader.array(lambda: _read_partition(reader, version)))
    reader.tagged_fields()
    return topic


def _read_partition(reader: FieldReader, version: int) -> FetchPartition:
    if version >= _FLEXIBLE:
        partition = FetchPartition(*reader.numbers(_REQUEST_PARTITIONS[_FLEXIBLE]))
        reader.tagged_fields()
        return partition
    epoch, log_start = -1, -1
    if version >= _CURRENT_EPOCH:
        number, epoch, offset, log_start, max_bytes = reader.numbers(_REQUEST_PARTITIONS[_CURRENT_EPOCH])
    elif version >= _LOG_START:
        number, offset, log_start, max_bytes = reader.numbers(_REQUEST_PARTITIONS[_LOG_START])
    else:
        number, offset, max_bytes = reader.numbers(_REQUEST_PARTITIONS[4])
    return FetchPartition(number, epoch, offset, -1, log_start, max_bytes)


def _read_forgotten(reader: FieldReader, version: int) -> ForgottenTopic:
    name, topic_id = _topic_name(reader, version)
    topic = ForgottenTopic(name, topic_id, reader.array(reader.int32))
    reader.tagged_fields()
    return topic


def _write_topic_name(
    writer: FieldWriter, version: int, topic: FetchTopic | ForgottenTopic | FetchableTopicResponse
) -> None:
    if version >= _TOPIC_IDS:
        writer.uuid(topic.topic_id)
    else:
        writer.string(topic.topic)


def _write_wanted(writer: FieldWriter, version: int, wanted: FetchPartition) -> None:
    number, epoch, offset, _last_fetched_epoch, log_start, max_bytes = wanted
    if version >= _FLEXIBLE:
        writer.buffer += _REQUEST_PARTITIONS[_FLEXIBLE].pack(*wanted)
        writer.tagged_fields()
    elif version >= _CURRENT_EPOCH:
        writer.buffer += _REQUEST_PARTITIONS[_CURRENT_EPOCH].pack(number, epoch, offset, log_start, max_bytes)
    elif version >= _LOG_START:
        writer.buffer += _REQUEST_PARTITIONS[_LOG_START].pack(number, offset, log_start, max_bytes)
    else:
        writer.buffer += _REQUEST_PARTITIONS[4].pack(number, offset, max_bytes)


def _write_partition(writer: FieldWriter, version: int, data: PartitionData, parts: list[Sized]) -> None:
    fixed = (data.partition_index, data.error_code, data.high_watermark, data.last_stable_offset)
    if version >= _LOG_START:
        writer.buffer += _PARTITION_WITH_LOG_START.pack(*fixed, data.log_start_offset)
    else:
        writer.buffer += _PARTITION.pack(*fixed)
    aborted = data.aborted_transactions
    writer.length(-1 if aborted is None else len(aborted))
    for transaction in aborted or ():
        writer.buffer += _ABORTED.pack(*transaction)
        writer.tagged_fields()
    if version >= _RACK:
        writer.buffer += _INT32.pack(data.preferred_read_replica)
    records = data.records
    writer.length(len(records))
    if isinstance(records, bytes):
        writer.buffer += records
    else:
        parts += [bytes(writer.buffer), records]
        writer.buffer.clear()
    if writer.is_flexible:
        writer.tagged_fields(_partition_tags(data))


def _partition_tags(data: PartitionData) -> list[tuple[int, bytes]]:
    tags = []
    if data.diverging_epoch != NO_DIVERGENCE:
        tags.append((0, _DIVERGING.pack(*data.diverging_epoch, 0)))
    if data.current_leader != UNKNOWN_LEADER:
        tags.append(leader_field(1, data.current_leader))
    return tags
