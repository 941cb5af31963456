"""The counts and configs of automatically created and internal topics, and the partition of a key. Pure.

A coordinator leads the partition ``Utils.abs(key.hashCode()) % partitions`` of its topic, as Java computes it. Keys are
group ids and transactional ids.

Source: Kafka's ``AutoTopicCreationManager`` and the coordinators' topic configs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.config.broker_config import BrokerConfig
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import NewTopic


class _Keys(NamedTuple):
    """The broker's config keys for an internal topic."""

    partitions: str
    replication_factor: str
    segment_bytes: str
    min_isr: str | None = None


_KEYS = {
    GROUP_METADATA_TOPIC: _Keys(
        "offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes"
    ),
    TRANSACTION_STATE_TOPIC: _Keys(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.state.log.min.isr",
    ),
    SHARE_GROUP_STATE_TOPIC: _Keys(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
    ),
}

_SETTINGS = {
    GROUP_METADATA_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_STATE_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_GROUP_STATE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
}


def automatic_topic(name: str, config: BrokerConfig) -> NewTopic:
    """Return the topic to create: an internal topic by the broker's configs, another with the defaults."""
    keys = _KEYS.get(name)
    if keys is None:
        return NewTopic(name=name)
    settings = _SETTINGS[name] | {"segment.bytes": str(config.number(keys.segment_bytes))}
    if keys.min_isr is not None:
        settings["min.insync.replicas"] = str(config.number(keys.min_isr))
    return NewTopic(
        name=name,
        partitions=config.number(keys.partitions),
        replication_factor=config.number(keys.replication_factor),
        configs=settings,
    )


def partition_count(name: str, image: MetadataImage, config: BrokerConfig) -> int:
    """Return the partition count of an internal topic: its own, or the configured one before it exists."""
    topic = image.topics.get(name)
    return len(topic.partitions) if topic else config.number(_KEYS[name].partitions)


_MASK = 0xFFFFFFFF
_SMALLEST = 0x80000000
_SHORT_BYTES = 128
"""The largest length in bytes for which a Python loop is faster than numpy."""


def partition_of(key: str, partitions: int) -> int:
    """Return the number of the partition, of ``partitions``, whose leader coordinates ``key``."""
    value = string_hash(key)
    if value == _SMALLEST:  # its absolute value does not fit a Java int, so Kafka uses 0
        return 0
    return (value if value < _SMALLEST else (1 << 32) - value) % partitions


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode()`` as an unsigned number. A character above U+FFFF counts as two UTF-16 units.

    The hash is a polynomial in 31. A long text is hashed in pieces, and numpy adds up the terms of each piece.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    if len(units) <= _SHORT_BYTES:
        for index in range(0, len(units), 2):
            value = (31 * value + (units[index] << 8 | units[index + 1])) & _MASK
        return value
    codes = np.frombuffer(units, ">u2")
    for start in range(0, len(codes), len(_POWERS)):
        piece = codes[start : start + len(_POWERS)]
        terms = piece * _POWERS[-len(piece) :]
        value = (value * pow(31, len(piece), 1 << 32) + int(terms.sum(dtype=np.uint32))) & _MASK
    return value


def _powers(count: int) -> npt.NDArray[np.uint32]:
    """Return powers of 31, the highest first, modulo 2**32."""
    powers = np.full(count, 31, np.uint32)
    powers[-1] = 1
    return np.cumprod(powers[::-1], dtype=np.uint32)[::-1]


_POWERS = _powers(4096)
