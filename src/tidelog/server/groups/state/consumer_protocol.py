"""The ``ConsumerProtocol`` inside classic groups: subscriptions and assignments of consumers. Pure.

The coordinator decodes this data of the clients to know the topics that a group reads (their offsets do not expire),
and to migrate groups between the protocols (KIP-848). Its codec is that of storage records: a version, then fields.
Source: Kafka's ``ConsumerProtocolSubscription.json``, ``ConsumerProtocolAssignment.json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.model import CorruptRecordError
from tidelog.record.internal_records.decoder import decode_message
from tidelog.record.internal_records.encoder import encode_message
from tidelog.record.internal_records.frames import read_prefix
from tidelog.record.internal_records.schema import Message, parse_messages

PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers, to which this module applies."""

_MESSAGES = parse_messages(
    """
Subscription -1 versions 0-3 flexible none
    topics []string
    userData bytes? = null
    ownedPartitions []TopicPartition 1+
        topic string
        partitions []int32
    generationId int32 2+ = -1
    rackId string? 3+ = null
Assignment -1 versions 0-3 flexible none
    assignedPartitions []TopicPartition
        topic string
        partitions []int32
    userData bytes? = null
"""
)
_NEWEST = 3

TopicPartitions = Mapping[str, Sequence[int]]
"""Partition numbers by topic name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """``owned`` and ``generation_id`` are the state before the join. A missing generation is -1."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned: TopicPartitions
    generation_id: int
    rack_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The leader's assignment for one member."""

    partitions: TopicPartitions
    user_data: bytes | None


def read_subscription(data: bytes) -> Subscription:
    """Decode a subscription. Raise CorruptRecordError if malformed. A newer version is read as the newest known one."""
    version, fields = _read(_MESSAGES["Subscription"], data)
    return Subscription(
        version=version,
        topics=tuple(fields["topics"]),
        user_data=fields.get("userData"),
        owned={part["topic"]: part["partitions"] for part in fields.get("ownedPartitions", ())},
        generation_id=fields.get("generationId", -1),
        rack_id=fields.get("rackId"),
    )


def read_assignment(data: bytes) -> Assignment:
    """Decode an assignment. Raise CorruptRecordError if malformed. Empty bytes mean no partitions."""
    if not data:
        return Assignment(partitions={}, user_data=None)
    _, fields = _read(_MESSAGES["Assignment"], data)
    partitions = {part["topic"]: part["partitions"] for part in fields["assignedPartitions"]}
    return Assignment(partitions=partitions, user_data=fields.get("userData"))


def write_assignment(partitions: TopicPartitions, version: int) -> bytes:
    """Encode an assignment without user data."""
    version = min(version, _NEWEST)
    parts = [{"topic": topic, "partitions": list(numbers)} for topic, numbers in partitions.items()]
    fields = {"assignedPartitions": parts}
    return version.to_bytes(2, "big") + encode_message(_MESSAGES["Assignment"], fields, version)


def _read(message: Message, data: bytes) -> tuple[int, dict[str, Any]]:
    version = read_prefix(data)
    if version < 0:
        raise CorruptRecordError(f"a {message.name.lower()} has version {version}")
    return version, decode_message(message, data, min(version, _NEWEST), 2)[0]
