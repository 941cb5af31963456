"""The current leader of a partition, as tagged fields of Produce and Fetch responses (KIP-951). Pure.

A client gets them if it sent its request to a broker that is not the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.protocol.field_reader import FieldReader
from tidelog.protocol.field_writer import FieldWriter

_LEADER = Struct(">iiB")
_LEADER_FIELDS = Struct(">ii")
_INT32 = Struct(">i")
_NODE_ENDPOINTS_TAG = 0


class LeaderIdAndEpoch(NamedTuple):
    leader_id: int
    leader_epoch: int


UNKNOWN_LEADER: Final = LeaderIdAndEpoch(-1, -1)


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def leader_field(tag: int, leader: LeaderIdAndEpoch) -> tuple[int, bytes]:
    """Return the field as ``FieldWriter.tagged_fields`` takes it."""
    return tag, _LEADER.pack(leader.leader_id, leader.leader_epoch, 0)


def node_field(nodes: Sequence[NodeEndpoint]) -> tuple[int, bytes]:
    """Return the endpoints of a response as a field for ``FieldWriter.tagged_fields``."""
    writer = FieldWriter(is_flexible=True)
    writer.length(len(nodes))
    for node in nodes:
        writer.buffer += _INT32.pack(node.node_id)
        writer.string(node.host)
        writer.buffer += _INT32.pack(node.port)
        writer.string(node.rack)
        writer.tagged_fields()
    return _NODE_ENDPOINTS_TAG, bytes(writer.buffer)


def read_leader(reader: FieldReader) -> LeaderIdAndEpoch:
    """Read the value of a leader's field, as a client does."""
    leader = LeaderIdAndEpoch(*reader.numbers(_LEADER_FIELDS))
    reader.tagged_fields()
    return leader


def read_nodes(reader: FieldReader) -> list[NodeEndpoint]:
    """Read the value of the field of endpoints, as a client does."""
    return reader.array(lambda: _read_node(reader))


def _read_node(reader: FieldReader) -> NodeEndpoint:
    node = NodeEndpoint(reader.int32(), reader.string(), reader.int32(), reader.nullable_string())
    reader.tagged_fields()
    return node
