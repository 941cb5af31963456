"""The translation of a cluster's znodes to metadata, as Kafka's own migration makes it (KIP-866). Pure.

============================  ======================================================================================
metadata                      znodes
============================  ======================================================================================
topics, ids, replicas         ``/brokers/topics/T``; a topic may have no id
leaders, ISR, epochs          the state of each partition; its version is the partition epoch. A partition without a
                              state never had a leader or a record, so all of its replicas are in sync
settings                      ``/config/topics`` and ``/config/brokers``
quotas, SCRAM users           ``/config/users``, ``/config/clients`` and ``/config/ips``
ACLs                          ``/kafka-acl`` and ``/kafka-acl-extended/prefixed``
next producer id              the end of the newest block
============================  ======================================================================================

``translate`` takes a whole tree. The other public functions take one znode, or one topic, for a broker that follows
its changes. Empty data stands for a znode that was removed.

Everything without a translation is listed by name: nothing is left out silently. A znode that is not valid is a
ZnodeError, since a guess could lose records or open the cluster. Source: Kafka's ``ZkMigrationClient`` and its parts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tidelog.config.quota_keys import ADDRESS_QUOTAS, CLIENT_QUOTAS
from tidelog.model import ZnodeError
from tidelog.model.topic_partition import is_legal_topic
from tidelog.security.scram_credential import SCRAM_MECHANISMS, ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.acls import acl_record
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.controller.quotas import ADDRESS, CLIENT_ID, USER
from tidelog.server.metadata.image import ConfigResource, MetadataImage, QuotaEntity
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import MIGRATING, NO_LEADER, PartitionState
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.acl_znode import decode_acls, pattern_of
from tidelog.server.metadata.zookeeper.scram_text import decode_scram
from tidelog.server.metadata.zookeeper.znode_json import shown
from tidelog.server.metadata.zookeeper.znode_tree import ZnodeTree, join
from tidelog.server.metadata.zookeeper.znodes import (
    BrokerZnode,
    ClusterIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    FeatureZnode,
    ProducerIdsZnode,
    StateZnode,
    TopicZnode,
)
from tidelog.storage.checkpoint import random_uuid, uuid_to_text

_TRANSLATED_CONFIGS: Final = frozenset({"topics", "brokers", "users", "clients", "ips", "changes"})
_ENTITY_TYPES: Final = {"clients": CLIENT_ID, "users": USER, "ips": ADDRESS}


class ZooKeeperTopic(NamedTuple):
    topic_id: uuid.UUID | None
    partitions: Mapping[int, PartitionState]
    """The state by number. Replicas are in the directory MIGRATING, because ZooKeeper does not know it."""


class ZooKeeperEntity(NamedTuple):
    """The settings of a user, client or address."""

    entity: QuotaEntity
    quotas: Mapping[str, float]
    credentials: Mapping[ScramMechanism, ScramCredential]


class Untranslated(NamedTuple):
    """Something in ZooKeeper that has no translation."""

    what: str
    names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperCluster:
    """The metadata of a cluster with ZooKeeper."""

    cluster_id: str | None = None
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerZnode] = field(default_factory=dict)
    """The live brokers."""
    topics: Mapping[str, ZooKeeperTopic] = field(default_factory=dict)
    deleted_topics: Sequence[str] = ()
    """The topics whose deletion is not complete. They are among the topics, unless all of their znodes are gone."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    users: Sequence[tuple[str, ScramCredential]] = ()
    acls: Sequence[Acl] = ()
    next_producer_id: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    has_migration: bool = False
    """True if a migration to KRaft has begun: the controllers of KRaft then have newer metadata."""
    untranslated: Sequence[Untranslated] = ()

    def settings_of(self, resource_type: ResourceType) -> dict[str, dict[str, str]]:
        """Return the settings of all resources of a type by name."""
        return {one.name: dict(found) for one, found in self.configs.items() if one.type is resource_type}

    def image(self) -> MetadataImage:
        """Return the image of the records. A topic without an id gets one."""
        image = MetadataImage(cluster_id=self.cluster_id or "")
        topics = {name: one._replace(topic_id=one.topic_id or random_uuid()) for name, one in self.topics.items()}
        for record in replace(self, topics=topics).records():
            image.apply(record)
        return image

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records of the metadata without brokers and features. Every topic must have an id."""
        for name, topic in self.topics.items():
            assert topic.topic_id is not None
            topic_id = uuid_to_text(topic.topic_id)
            yield MetadataRecord("TopicRecord", {"name": name, "topicId": topic_id})
            for number, state in topic.partitions.items():
                yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **state.fields()})
        for resource, settings in self.configs.items():
            yield from (config_record(resource, key, value) for key, value in settings.items())
        for entity, quotas in self.quotas.items():
            parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
            for key, value in quotas.items():
                yield MetadataRecord(
                    "ClientQuotaRecord", {"entity": parts, "key": key, "value": value, "remove": False}
                )
        for user, credential in self.users:
            yield MetadataRecord("UserScramCredentialRecord", credential.fields(user))
        for acl in self.acls:
            yield acl_record(uuid_to_text(random_uuid()), acl)
        if self.next_producer_id:
            fields = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": self.next_producer_id}
            yield MetadataRecord("ProducerIdsRecord", fields)


def translate(tree: ZnodeTree) -> ZooKeeperCluster:
    """Translate the znodes that ``read_chroot`` has read. Raise ZnodeError if one is not valid."""
    entities = _Entities()
    entities.add_all(tree)
    cluster_id = tree.data(paths.CLUSTER_ID)
    epoch = tree.data(paths.CONTROLLER_EPOCH)
    block = tree.data(paths.PRODUCER_IDS)
    ids = None if block is None else ProducerIdsZnode.decode(paths.PRODUCER_IDS, block)
    features = _features(tree)
    return ZooKeeperCluster(
        cluster_id=None if cluster_id is None else ClusterIdZnode.decode(paths.CLUSTER_ID, cluster_id).cluster_id,
        controller_epoch=0 if epoch is None else ControllerEpochZnode.decode(paths.CONTROLLER_EPOCH, epoch).epoch,
        brokers={
            broker_id_of(path, name): BrokerZnode.decode(path, data)
            for name, path, data in tree.items(paths.BROKER_IDS)
        },
        topics=dict(_topics(tree)),
        deleted_topics=tree.children(paths.DELETED_TOPICS),
        configs=translate_configs(tree),
        quotas=entities.quotas,
        users=entities.users,
        acls=list(_acls(tree)),
        next_producer_id=0 if ids is None else ids.last + 1,
        features=features,
        has_migration=tree.data(paths.MIGRATION) is not None,
        untranslated=[one for one in (*_untranslated(tree), *entities.untranslated()) if one.names],
    )


def translate_configs(tree: ZnodeTree) -> dict[ConfigResource, Mapping[str, str]]:
    """Return the settings of topics and brokers by resource. Raise ZnodeError if a znode is not valid."""
    found = (
        translate_settings(path, data)
        for root in (paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS)
        for _, path, data in tree.items(root)
    )
    return {resource: settings for resource, settings in found if settings}


def translate_settings(path: str, data: bytes) -> tuple[ConfigResource, Mapping[str, str]]:
    """Return the resource and settings of a znode below ``/config/topics`` or ``/config/brokers``."""
    root, _, name = path.rpartition("/")
    if root == paths.TOPIC_CONFIGS:
        _require_topic(path, name)
        resource = ConfigResource(ResourceType.TOPIC, name)
    else:
        broker = "" if name == paths.DEFAULT else str(broker_id_of(path, name))
        resource = ConfigResource(ResourceType.BROKER, broker)
    return resource, ConfigZnode.decode(path, data).settings


def translate_topic(tree: ZnodeTree, name: str) -> ZooKeeperTopic | None:
    """Return a topic with the states of its partitions, or None if its znode is missing."""
    path = paths.topic(name)
    data = tree.data(path)
    if data is None:
        return None
    _require_topic(path, name)
    topic = TopicZnode.decode(path, data)
    states = {number: _state(tree, path, name, number, topic) for number in sorted(topic.replicas)}
    return ZooKeeperTopic(topic.topic_id, states)


def translate_entity(path: str, data: bytes) -> ZooKeeperEntity:
    """Return the entity and settings of a znode below ``/config/users``, ``/config/clients`` or ``/config/ips``.

    Unknown settings are left out.
    """
    return _entity_of(path, ConfigZnode.decode(path, data).settings)


def translate_acls(path: str, data: bytes) -> list[Acl]:
    """Return the ACLs of a resource, whose znode is below ``/kafka-acl`` or ``/kafka-acl-extended/prefixed``."""
    pattern = pattern_of(path)
    return decode_acls(path, data, pattern) if data else []


def _topics(tree: ZnodeTree) -> Iterator[tuple[str, ZooKeeperTopic]]:
    ids: dict[uuid.UUID, str] = {}
    for name in tree.children(paths.TOPICS):
        topic = translate_topic(tree, name)
        if topic is None:
            continue
        if topic.topic_id is not None and (other := ids.setdefault(topic.topic_id, name)) != name:
            raise ZnodeError(f"znode {paths.topic(name)}: its topic_id is also that of {other}")
        yield name, topic


def _state(tree: ZnodeTree, topic_path: str, name: str, number: int, topic: TopicZnode) -> PartitionState:
    replicas = topic.replicas[number]
    if not replicas or len(set(replicas)) < len(replicas) or min(replicas) < 0:
        raise ZnodeError(f"znode {topic_path}: partition {number} has the replicas {shown(list(replicas))}")
    path = paths.state(name, number)
    znode = tree.znodes.get(path)
    state = StateZnode(leader=NO_LEADER, leader_epoch=0, controller_epoch=0, isr=replicas)
    if znode is not None:
        state = StateZnode.decode(path, znode.data)
    if not set(state.isr) <= set(replicas):
        raise ZnodeError(f"znode {path}: isr is {shown(list(state.isr))}, but the replicas are {shown(list(replicas))}")
    return PartitionState(
        replicas=replicas,
        isr=state.isr,
        leader=max(state.leader, NO_LEADER),
        leader_epoch=state.leader_epoch,
        partition_epoch=0 if znode is None else znode.version,
        directories=(MIGRATING,) * len(replicas),
        adding=topic.adding.get(number, ()),
        removing=topic.removing.get(number, ()),
        is_recovering=state.is_recovering,
    )


def _acls(tree: ZnodeTree) -> Iterator[Acl]:
    for store in (paths.LITERAL_ACLS, paths.PREFIXED_ACLS):
        for kind in tree.children(store):
            for _, path, data in tree.items(join(store, kind)):
                if tree.znodes[path].child_count:
                    raise ZnodeError(f"znode {path}: it has children, so it is not the ACLs of a resource")
                yield from translate_acls(path, data)


def _features(tree: ZnodeTree) -> Mapping[str, int]:
    data = tree.data(paths.FEATURE)
    if data is None:
        return {}
    found = FeatureZnode.decode(paths.FEATURE, data)
    return found.levels if found.is_enabled else {}


def _untranslated(tree: ZnodeTree) -> Iterator[Untranslated]:
    yield Untranslated("delegation tokens", tree.children(paths.DELEGATION_TOKENS))
    yield Untranslated("offsets of consumers before 0.9", tree.children(paths.OLD_CONSUMERS))
    others = [join(paths.CONFIG, name) for name in tree.children(paths.CONFIG) if name not in _TRANSLATED_CONFIGS]
    yield Untranslated("settings of another type", [path for path in others if _has_children(tree, path)])
    yield Untranslated("requests of old tools", [path for path in _REQUESTS if tree.data(path) is not None])
    yield Untranslated("znodes of other programs", [name for name in tree.children("/") if name not in paths.OF_KAFKA])


_REQUESTS: Final = (paths.REASSIGNMENT, paths.PREFERRED_ELECTION)


def _has_children(tree: ZnodeTree, path: str) -> bool:
    return path in tree.znodes and tree.znodes[path].child_count > 0


class _Entities:
    """The quotas and SCRAM credentials of users, clients and addresses."""

    def __init__(self) -> None:
        self.quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self.users: list[tuple[str, ScramCredential]] = []
        self._unknown: list[str] = []

    def add_all(self, tree: ZnodeTree) -> None:
        for root in (paths.CLIENT_CONFIGS, paths.ADDRESS_CONFIGS):
            for _, path, data in tree.items(root):
                self._add(path, data)
        for _, path, data in tree.items(paths.USER_CONFIGS):
            self._add(path, data)
            for _, client_path, client_data in tree.items(paths.user_clients(path)):
                self._add(client_path, client_data)

    def untranslated(self) -> Iterator[Untranslated]:
        yield Untranslated("unknown settings of users, clients and addresses", self._unknown)

    def _add(self, path: str, data: bytes) -> None:
        settings = ConfigZnode.decode(path, data).settings
        found = _entity_of(path, settings)
        if found.quotas:
            self.quotas[found.entity] = found.quotas
        user = found.entity[0][1] or ""
        self.users += ((user, credential) for credential in found.credentials.values())
        known = {*found.quotas, *(mechanism.title for mechanism in found.credentials)}
        self._unknown += (f"{path} {key}" for key in settings if key not in known)


def _entity_of(path: str, settings: Mapping[str, str]) -> ZooKeeperEntity:
    entity = _entity(path)
    kinds = {kind for kind, _ in entity}
    keys = ADDRESS_QUOTAS if ADDRESS in kinds else CLIENT_QUOTAS
    has_credentials = kinds == {USER} and entity[0][1] is not None
    return ZooKeeperEntity(
        entity=entity,
        quotas={key: _quota(path, key, text) for key, text in settings.items() if key in keys},
        credentials={
            SCRAM_MECHANISMS[key]: _credential(path, key, text)
            for key, text in settings.items()
            if has_credentials and key in SCRAM_MECHANISMS
        },
    )


def _entity(path: str) -> QuotaEntity:
    """Return the entity of ``/config/users/U``, ``/config/users/U/clients/C``, ``/config/clients/C`` or
    ``/config/ips/I``."""
    kind, name, *inner = path.removeprefix(f"{paths.CONFIG}/").split("/")
    parts = [(_ENTITY_TYPES[kind], _entity_name(path, name))]
    if inner:
        parts.append((CLIENT_ID, _entity_name(path, inner[-1])))
    return tuple(sorted(parts, key=lambda part: part[0]))


def _quota(path: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ZnodeError(f"znode {path}: {key} is {shown(text)}, which is not a number above 0")
    return value


def _credential(path: str, key: str, text: str) -> ScramCredential:
    try:
        return decode_scram(SCRAM_MECHANISMS[key], text)
    except ValueError as error:
        raise ZnodeError(f"znode {path}: {key} is not a credential: {error}") from None


def _entity_name(path: str, name: str) -> str | None:
    try:
        return paths.decoded_name(name)
    except UnicodeDecodeError:
        raise ZnodeError(f"znode {path}: its name is not percent-encoded UTF-8") from None


def broker_id_of(path: str, name: str) -> int:
    """Return the broker of a znode's name. Raise ZnodeError if it is not a number."""
    if not (name.isascii() and name.isdigit() and len(name) < 11 and int(name) < 2**31):
        raise ZnodeError(f"znode {path}: {shown(name)} is not a broker id")
    return int(name)


def _require_topic(path: str, name: str) -> None:
    if not is_legal_topic(name):
        raise ZnodeError(f"znode {path}: {shown(name)} is not a valid name of a topic")
