"""Fetch responses, v4 to v18, read as a client: the records stay where they were received.

``protocol.fetch`` has the fields of each version, and the server's side. Names and values are those of kio's messages,
but ``records`` is a view of the received bytes, which is empty for null. A field that the version lacks has Kafka's
default. The time to decode a response depends on its partitions, and not on its bytes. A view keeps the memory of the
complete response alive. Source: Kafka's ``FetchResponse.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.fetch import NO_DIVERGENCE, AbortedTransaction, DivergingEpoch
from tidelog.protocol.field_reader import FieldReader, message_reader
from tidelog.protocol.leader_hints import UNKNOWN_LEADER, LeaderIdAndEpoch, NodeEndpoint, read_leader, read_nodes

_LOG_START = 5
_SESSIONS = 7
_RACK = 11
_FLEXIBLE = 12
_TOPIC_IDS = 13
_NODES = 16

_SESSION = Struct(">hi")
_PARTITION = Struct(">ihqq")
_PARTITION_WITH_LOG_START = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_DIVERGING = Struct(">iq")
_SNAPSHOT = Struct(">qi")
_NO_RECORDS: Final = memoryview(b"")


class SnapshotId(NamedTuple):
    """A snapshot of the metadata log (KIP-630). It has all records below ``end_offset``, the last one of ``epoch``.

    In a response, a follower must fetch it instead of records.
    """

    end_offset: int = -1
    epoch: int = -1


NO_SNAPSHOT: Final = SnapshotId()


class FetchedPartition(NamedTuple):
    """A partition's result. ``aborted_transactions`` is None from a broker that was not asked for committed records."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: int
    records: memoryview
    """The batches. The last one may be incomplete."""
    diverging_epoch: DivergingEpoch
    current_leader: LeaderIdAndEpoch
    snapshot_id: SnapshotId


class FetchedTopic(NamedTuple):
    """A topic. Depending on the version it has ``topic`` or ``topic_id``."""

    topic: str
    topic_id: UUID | None
    partitions: list[FetchedPartition]


class Fetched(NamedTuple):
    """A response. ``throttle_time`` is in ms."""

    throttle_time: int
    error_code: int
    session_id: int
    responses: list[FetchedTopic]
    node_endpoints: list[NodeEndpoint]


@message_reader
def read_fetch_response(version: int, body: memoryview) -> Fetched:
    """Decode the bytes after the header. Raise MalformedMessageError if they are not a response of the version."""
    reader = FieldReader(body, is_flexible=version >= _FLEXIBLE, most_items=len(body))
    throttle_time = reader.int32()
    error_code, session_id = reader.numbers(_SESSION) if version >= _SESSIONS else (0, 0)
    responses = reader.array(lambda: _read_topic(reader, version))
    nodes: list[NodeEndpoint] = []
    reader.tagged_fields({0: lambda: nodes.extend(read_nodes(reader))} if version >= _NODES else None)
    return Fetched(throttle_time, error_code, session_id, responses, nodes)


def _read_topic(reader: FieldReader, version: int) -> FetchedTopic:
    name, topic_id = ("", reader.uuid()) if version >= _TOPIC_IDS else (reader.string(), None)
    topic = FetchedTopic(name, topic_id, reader.array(lambda: _read_partition(reader, version)))
    reader.tagged_fields()
    return topic


def _read_partition(reader: FieldReader, version: int) -> FetchedPartition:
    log_start = -1
    if version >= _LOG_START:
        index, error_code, high_watermark, last_stable, log_start = reader.numbers(_PARTITION_WITH_LOG_START)
    else:
        index, error_code, high_watermark, last_stable = reader.numbers(_PARTITION)
    aborted = reader.nullable_array(lambda: _read_aborted(reader))
    preferred = reader.int32() if version >= _RACK else -1
    records = reader.nullable_view()
    tags = _Tags(reader)
    reader.tagged_fields(tags.known if version >= _FLEXIBLE else None)
    return FetchedPartition(
        index,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        preferred,
        _NO_RECORDS if records is None else records,
        tags.diverging,
        tags.leader,
        tags.snapshot,
    )


def _read_aborted(reader: FieldReader) -> AbortedTransaction:
    transaction = AbortedTransaction(*reader.numbers(_ABORTED))
    reader.tagged_fields()
    return transaction


class _Tags:
    """The tagged fields of a partition, which most responses do not have."""

    __slots__ = ("_reader", "diverging", "known", "leader", "snapshot")

    def __init__(self, reader: FieldReader) -> None:
        self._reader = reader
        self.diverging, self.leader, self.snapshot = NO_DIVERGENCE, UNKNOWN_LEADER, NO_SNAPSHOT
        self.known: dict[int, Callable[[], None]] = {0: self._diverging, 1: self._leader, 2: self._snapshot}

    def _diverging(self) -> None:
        self.diverging = DivergingEpoch(*self._reader.numbers(_DIVERGING))
        self._reader.tagged_fields()

    def _leader(self) -> None:
        self.leader = read_leader(self._reader)

    def _snapshot(self) -> None:
        self.snapshot = SnapshotId(*self._reader.numbers(_SNAPSHOT))
        self._reader.tagged_fields()
