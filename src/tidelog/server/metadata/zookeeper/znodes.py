"""The codec of Kafka's znodes. Each value decodes every version that Kafka 0.8.2 to 3.9 wrote, and encodes that of 3.9.

===========================  ========  ================================================================================
znode                        versions  differences
===========================  ========  ================================================================================
broker                       1 – 5     1 has a host and port only; endpoints since 2, a rack since 3, security
                                       protocols by listener since 4, features since 5
topic                        1 – 3     adding and removing replicas since 2 (KIP-455), a topic id since 3 (KIP-516)
partition state              1         a recovery state after an unclean election, since Kafka 3.2 (KIP-704)
settings                     1
controller                   1 – 2     the epoch of a KRaft controller since 2 (KIP-866)
feature                      1 – 2     ranges of levels in 1, one level since 2
producer id block            1
cluster id                   1         the version is a text
===========================  ========  ================================================================================

Kafka itself ignores most versions. Here a version that is not in the table is an error, because its meaning is unknown.
Unknown fields are ignored, as Kafka ignores them. ``hash_order`` has the sequence of the keys in an encoded object.
Decoders raise ZnodeError. Pure. Source: Kafka's ``ZkData``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from tidelog.model import ZnodeError
from tidelog.replication.registration_request import BrokerEndpoint, VersionRange
from tidelog.security.security_protocol import SecurityProtocol
from tidelog.server.metadata.zookeeper.hash_order import properties_order, scala_order
from tidelog.server.metadata.zookeeper.znode_json import INT, LONG, JsonFields, encode_json, shown
from tidelog.storage.checkpoint import uuid_from_text, uuid_to_text

_ENDPOINT: Final = re.compile(r"(?P<name>[^:/]+)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]{1,5})", re.ASCII)
_RECOVERING: Final = 1
_DURING_DELETE: Final = -2
"""Kafka's leader of a partition whose topic is being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicZnode:
    """A topic's id, and the replicas of its partitions by number. An id is None if it was never assigned."""

    topic_id: uuid.UUID | None
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The new replicas of partitions whose reassignment is under way. Other partitions are left out."""
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        fields = JsonFields.of(path, data)
        fields.version(1, 2, 3)
        topic_id = fields.optional_text("topic_id")
        return cls(
            topic_id=None if topic_id is None else _topic_id(fields, topic_id),
            replicas=fields.inner("partitions").numbers_by_partition(),
            adding=_some(fields.optional_inner("adding_replicas").numbers_by_partition()),
            removing=_some(fields.optional_inner("removing_replicas").numbers_by_partition()),
        )

    def encode(self) -> bytes:
        ids = {} if self.topic_id is None else {"topic_id": uuid_to_text(self.topic_id)}
        fields = {
            "partitions": _by_partition(self.replicas),
            **ids,
            "adding_replicas": _by_partition(_some(self.adding)),
            "removing_replicas": _by_partition(_some(self.removing)),
            "version": 3,
        }
        return encode_json(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateZnode:
    """The leader and the in-sync replicas of a partition. Without a leader, ``leader`` is -1."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    is_recovering: bool = False

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        fields = JsonFields.of(path, data)
        fields.version(1)
        return cls(
            leader=fields.number("leader", range(_DURING_DELETE, INT.stop)),
            leader_epoch=fields.number("leader_epoch", range(INT.stop)),
            controller_epoch=fields.number("controller_epoch"),
            isr=fields.numbers("isr"),
            is_recovering=fields.optional_number("leader_recovery_state", 0, range(2)) == _RECOVERING,
        )

    def encode(self) -> bytes:
        recovery = {"leader_recovery_state": _RECOVERING} if self.is_recovering else {}
        fields = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": 1,
            **recovery,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }
        return encode_json(fields)


class ConfigZnode(NamedTuple):
    """The settings of an entity. A znode without data has none: Kafka makes it for the parent of another one."""

    settings: Mapping[str, str]

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        if not data:
            return cls({})
        fields = JsonFields.of(path, data)
        fields.version(1)
        return cls(fields.optional_inner("config").text_items())

    def encode(self) -> bytes:
        ordered = {key: self.settings[key] for key in properties_order(self.settings)}
        return encode_json({"version": 1, "config": ordered})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerZnode:
    """A live broker."""

    listeners: tuple[BrokerEndpoint, ...]
    timestamp_ms: int
    """The time of the registration."""
    jmx_port: int = -1
    rack: str | None = None
    features: Mapping[str, VersionRange] = field(default_factory=dict)

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        fields = JsonFields.of(path, data)
        version = fields.version(1, 2, 3, 4, 5)
        protocols = fields.optional_inner("listener_security_protocol_map").text_items()
        if version == 1:
            texts: tuple[str, ...] = (f"PLAINTEXT://{fields.text('host')}:{fields.number('port')}",)
        else:
            texts = fields.texts("endpoints")
        ranges = fields.optional_inner("features")
        return cls(
            listeners=tuple(_endpoint(fields, text, protocols) for text in texts),
            timestamp_ms=fields.text_number("timestamp"),
            jmx_port=fields.optional_number("jmx_port", -1),
            rack=fields.optional_text("rack"),
            features={name: _range(ranges.inner(name)) for name in ranges.fields},
        )

    def encode(self) -> bytes:
        plain = next((one for one in self.listeners if one.security_protocol == SecurityProtocol.PLAINTEXT), None)
        fields = {
            "features": {
                name: {"min_version": self.features[name].oldest, "max_version": self.features[name].latest}
                for name in properties_order(self.features)
            },
            "listener_security_protocol_map": {
                one.name: SecurityProtocol(one.security_protocol).name for one in self.listeners
            },
            "endpoints": [_endpoint_text(one) for one in self.listeners],
            **({} if self.rack is None else {"rack": self.rack}),
            "jmx_port": self.jmx_port,
            "port": -1 if plain is None else plain.port,
            "host": None if plain is None else plain.host or None,
            "version": 5,
            "timestamp": str(self.timestamp_ms),
        }
        return encode_json(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerZnode:
    """The broker that is the controller."""

    broker_id: int
    timestamp_ms: int
    kraft_epoch: int = -1
    """The epoch of the KRaft controller that has taken over, or -1."""

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        fields = JsonFields.of(path, data)
        fields.version(1, 2)
        return cls(
            broker_id=fields.number("brokerid"),
            timestamp_ms=fields.text_number("timestamp"),
            kraft_epoch=fields.optional_number("kraftControllerEpoch", -1),
        )

    def encode(self) -> bytes:
        fields = {
            "version": 2,
            "brokerid": self.broker_id,
            "timestamp": str(self.timestamp_ms),
            "kraftControllerEpoch": self.kraft_epoch,
        }
        return encode_json(fields)


class ControllerEpochZnode(NamedTuple):
    epoch: int

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        text = data.decode("latin-1")
        if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) or int(text) not in INT:
            raise ZnodeError(f"znode {path}: {shown(data)} is not an epoch")
        return cls(int(text))

    def encode(self) -> bytes:
        return str(self.epoch).encode()


class ClusterIdZnode(NamedTuple):
    cluster_id: str

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        fields = JsonFields.of(path, data)
        if fields.text("version") != "1":
            raise fields.error(f"version {fields.text('version')} is not known, only 1")
        return cls(fields.text("id"))

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.cluster_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsZnode:
    """The newest block of producer ids. ``last`` is inclusive."""

    broker_id: int
    first: int
    last: int

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self | None:
        """Return the block, or None if no broker has taken one: the znode has no data then."""
        if not data:
            return None
        fields = JsonFields.of(path, data)
        fields.version(1)
        return cls(
            broker_id=fields.number("broker"),
            first=fields.text_number("block_start", range(LONG.stop)),
            last=fields.text_number("block_end", range(LONG.stop - 1)),
        )

    def encode(self) -> bytes:
        fields = {
            "version": 1,
            "broker": self.broker_id,
            "block_start": str(self.first),
            "block_end": str(self.last),
        }
        return encode_json(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureZnode:
    """The finalized features. They count only if ``is_enabled``: the brokers speak a protocol of 2.7 or later."""

    is_enabled: bool
    levels: Mapping[str, int]

    @classmethod
    def decode(cls, path: str, data: bytes) -> Self:
        fields = JsonFields.of(path, data)
        fields.version(1, 2)
        features = fields.inner("features")
        return cls(
            is_enabled=fields.number("status", range(2)) == 1,
            levels={name: features.inner(name).number("max_version_level", range(2**15)) for name in features.fields},
        )

    def encode(self) -> bytes:
        features = {name: {"max_version_level": self.levels[name]} for name in properties_order(self.levels)}
        return encode_json({"features": features, "version": 2, "status": int(self.is_enabled)})


def _some(found: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    return {number: replicas for number, replicas in found.items() if replicas}


def _by_partition(found: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    texts = {str(number): list(replicas) for number, replicas in found.items()}
    return {key: texts[key] for key in scala_order(texts)}


def _topic_id(fields: JsonFields, text: str) -> uuid.UUID:
    try:
        return uuid_from_text(text)
    except ValueError:
        raise fields.error(f"topic_id is {shown(text)}, which is not an id") from None


def _range(fields: JsonFields) -> VersionRange:
    return VersionRange(fields.number("min_version", range(2**15)), fields.number("max_version", range(2**15)))


def _endpoint(fields: JsonFields, text: str, protocols: Mapping[str, str]) -> BrokerEndpoint:
    found = _ENDPOINT.fullmatch(text)
    name = found["name"] if found else ""
    protocol = SecurityProtocol.__members__.get(protocols.get(name, name))
    if found is None or protocol is None:
        raise fields.error(f"{shown(text)} is not a listener with a security protocol")
    return BrokerEndpoint(name, found["host"], int(found["port"]), int(protocol))


def _endpoint_text(endpoint: BrokerEndpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.name}://{host}:{endpoint.port}"
