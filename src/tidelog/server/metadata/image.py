"""The current cluster metadata: the result of all records so far.

``apply`` adds one record and notes its effects in a ``MetadataChange``. Some records are errors of the log
(CorruptRecordError): they contradict the image (a partition of an unknown topic), or have a number that leaves no room
for the next ones.

==================================  =============================================================================
record                              effect
==================================  =============================================================================
Topic, RemoveTopic                  adds a topic; removes it with its partitions and configs
Partition, PartitionChange          sets a partition's state; changes a part of it
Config                              sets one config of one resource; null removes it
RegisterBroker, UnregisterBroker    adds or replaces a broker; removes it
BrokerRegistrationChange, FenceBroker, UnfenceBroker
                                    changes fencing, controlled shutdown or log directories of a broker
FeatureLevel                        sets a finalized feature; level 0 removes it
ClientQuota                         sets or removes one quota of one entity
ProducerIds                         sets the next free producer id
ClearElr                            removes the eligible leader replicas of a topic or of all topics
RegisterController, UnregisterController
                                    adds a controller and the features that it supports; removes it
UserScramCredential, RemoveUserScramCredential
                                    sets a user's SCRAM credential; removes it
AccessControlEntry, RemoveAccessControlEntry
                                    adds an ACL; removes it
DelegationToken, RemoveDelegationToken
                                    keeps the record unchanged, without an effect; removes it
NoOp, ZkMigrationState              none
==================================  =============================================================================

Thread rule: the event loop only. Source: Kafka's ``MetadataDelta``, ``MetadataImage`` and ``DirectoryId``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tidelog.model import CorruptRecordError, TopicPartition, UnsupportedFormatError
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.metadata_record import NEWER_RECORD, MetadataRecord
from tidelog.server.metadata.partition_state import LOST, MIGRATING, UNASSIGNED, PartitionState
from tidelog.storage.checkpoint import uuid_from_text

METADATA_VERSION: Final = "metadata.version"
MINIMUM_METADATA_VERSION: Final = 7
"""The level 3.3-IV3: the oldest that Kafka 4.x reads, and the level of a log without one."""

_PRODUCER_IDS: Final = range(2**63 - 2**32)
"""The valid next producer ids. They leave room for more blocks than any cluster needs."""

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Pairs of type (user, client-id, ip) and name, sorted by type. The name None is the default."""


class ConfigResource(NamedTuple):
    type: ResourceType
    name: str
    """The resource's name; "" is the default of all brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic. Only the image changes ``partitions``."""

    name: str
    id: uuid.UUID
    partitions: dict[int, PartitionState] = field(default_factory=dict)


class PartitionDelta(NamedTuple):
    """A partition's change: ``before`` is None if it is new, and ``after`` is None if it is deleted."""

    topic_id: uuid.UUID
    before: PartitionState | None
    after: PartitionState | None


@dataclass(slots=True, kw_only=True)
class MetadataChange:
    """The effects of one committed change. It is complete when listeners get it."""

    end_offset: int = 0
    """The offset after its last record."""
    created_topics: list[Topic] = field(default_factory=list)
    deleted_topics: list[Topic] = field(default_factory=list)
    partitions: dict[tuple[uuid.UUID, int], PartitionDelta] = field(default_factory=dict)
    """The changed partitions by topic id and number, including the partitions of created and deleted topics."""
    configs: set[ConfigResource] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    features: set[str] = field(default_factory=set)
    quotas: set[QuotaEntity] = field(default_factory=set)
    added_acls: list[Acl] = field(default_factory=list)
    removed_acls: list[Acl] = field(default_factory=list)
    """The removed ACLs. The same change may have added some of them."""

    def note_partition(
        self, topic: Topic, number: int, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        known = self.partitions.get((topic.id, number))
        self.partitions[topic.id, number] = PartitionDelta(topic.id, known.before if known else before, after)


class SkippedRecord(NamedTuple):
    """A record that the image skipped: a later release of Kafka wrote it, or wrote a record that it depends on."""

    offset: int
    """The base offset of its batch."""
    reason: str
    record: MetadataRecord


@dataclass(slots=True, kw_only=True)
class MetadataImage:
    cluster_id: str = ""
    controller_id: int = -1
    features: dict[str, int] = field(default_factory=dict)
    """The finalized levels. A feature at level 0 is not included."""
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[uuid.UUID, Topic] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    """The configs by resource. A resource without configs is not included."""
    client_quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram_credentials: dict[ScramMechanism, dict[str, ScramCredential]] = field(default_factory=dict)
    """The credentials by mechanism and user. A mechanism without users is not included."""
    acls: dict[str, Acl] = field(default_factory=dict)
    """The ACLs by the ids of their records."""
    next_producer_id: int = 0
    controllers: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """The fields of ``RegisterControllerRecord`` by controller id."""
    delegation_tokens: dict[tuple[str, ...], MetadataRecord] = field(default_factory=dict)
    """The delegation tokens by kind and identity."""
    skipped_records: list[SkippedRecord] = field(default_factory=list)
    """Skipped records of a later release. An image with some is only for reading: see ``directory_check``."""
    revision: int = field(default=0, compare=False)
    """The number of records that were applied. The topics and brokers are the same until it grows."""

    def apply(self, record: MetadataRecord, change: MetadataChange | None = None) -> None:
        """Apply one record. An error changes nothing. Raise CorruptRecordError if the record contradicts the image, and
        UnsupportedFormatError if a later release may have written it."""
        if record.name == NEWER_RECORD:
            kind, version = record.fields["type"], record.fields["version"]
            raise UnsupportedFormatError(f"a metadata record ({kind}, version {version}) is not known")
        applier = _APPLIERS.get(record.name)
        if applier is not None:
            applier(self, record.fields, MetadataChange() if change is None else change)
        elif record.name in _KEPT:
            self.delegation_tokens[_identity(_KEPT[record.name], record)] = record
        elif record.name in _REMOVALS:
            kind = _REMOVALS[record.name]
            self.delegation_tokens.pop(_identity((kind, *_KEPT[kind][1:]), record), None)
        self.revision += 1

    def copy(self) -> MetadataImage:
        """Return a copy. Records that are applied to one of the two do not change the other."""
        topics = {name: replace(topic, partitions=dict(topic.partitions)) for name, topic in self.topics.items()}
        return replace(
            self,
            features=dict(self.features),
            brokers=dict(self.brokers),
            topics=topics,
            topics_by_id={topic.id: topic for topic in topics.values()},
            configs={resource: dict(settings) for resource, settings in self.configs.items()},
            client_quotas={entity: dict(quotas) for entity, quotas in self.client_quotas.items()},
            scram_credentials={mechanism: dict(users) for mechanism, users in self.scram_credentials.items()},
            acls=dict(self.acls),
            controllers=dict(self.controllers),
            delegation_tokens=dict(self.delegation_tokens),
            skipped_records=list(self.skipped_records),
        )

    # --- queries ---

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, MINIMUM_METADATA_VERSION)

    def partition(self, name: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(name.topic)
        return None if topic is None else topic.partitions.get(name.partition)

    def topic_name(self, name: str | None, topic_id: uuid.UUID | None) -> str | None:
        """Return ``name``, or the name of the topic with that id, or None if the id is unknown."""
        if name:
            return name
        topic = None if topic_id is None else self.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def partitions(self) -> Iterator[tuple[Topic, int, PartitionState]]:
        """Iterate over the partitions of all topics. Copy them to a list before any change."""
        for topic in self.topics.values():
            for number, state in topic.partitions.items():
                yield topic, number, state

    def settings_of(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        """Return the configs of one resource; defaults are not included."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def default_directory(self, broker_id: int) -> uuid.UUID:
        """Return the log directory id for a new replica. It is the broker's only one, UNASSIGNED if the broker has
        several, or MIGRATING if none is known."""
        broker = self.brokers.get(broker_id)
        directories = () if broker is None else tuple(broker.log_dirs)
        if not directories:
            return MIGRATING
        return directories[0] if len(directories) == 1 else UNASSIGNED

    def is_directory_online(self, broker_id: int, partition: PartitionState) -> bool:
        """Return True if the log directory of that broker's replica is online."""
        directory = partition.directory_of(broker_id)
        broker = self.brokers.get(broker_id)
        if directory == LOST or broker is None:
            return False
        return not broker.log_dirs or directory in (UNASSIGNED, MIGRATING) or directory in broker.log_dirs


_topic_id = lru_cache(maxsize=10_000)(uuid_from_text)
"""A cached parser: the partitions of a topic share its id, and most records are about partitions."""

Applier = Callable[[MetadataImage, Mapping[str, Any], MetadataChange], None]


def _topic(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    topic = Topic(name=fields["name"], id=uuid_from_text(fields["topicId"]))
    if topic.name in image.topics:
        raise CorruptRecordError(f"a second topic {topic.name}")
    if topic.id in image.topics_by_id or not topic.id.int:
        raise CorruptRecordError(f"topic {topic.name} has the id {fields['topicId']}, which is zero or in use")
    image.topics[topic.name] = image.topics_by_id[topic.id] = topic
    change.created_topics.append(topic)


def _remove_topic(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    topic = _topic_of(image, fields)
    del image.topics[topic.name], image.topics_by_id[topic.id]
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    if image.configs.pop(resource, None) is not None:
        change.configs.add(resource)
    for number, state in topic.partitions.items():
        change.note_partition(topic, number, state, None)
    if topic in change.created_topics:
        change.created_topics.remove(topic)
    else:
        change.deleted_topics.append(topic)


def _partition(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    _set_partition(_topic_of(image, fields), fields["partitionId"], PartitionState.of(fields), change)


def _partition_change(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    topic, number = _topic_of(image, fields), fields["partitionId"]
    state = topic.partitions.get(number)
    if state is None:
        raise CorruptRecordError(f"a change of {topic.name}-{number}, which does not exist")
    _set_partition(topic, number, state.changed(fields), change)


def _set_partition(topic: Topic, number: int, state: PartitionState, change: MetadataChange) -> None:
    change.note_partition(topic, number, topic.partitions.get(number), state)
    topic.partitions[number] = state


def _topic_of(image: MetadataImage, fields: Mapping[str, Any]) -> Topic:
    topic = image.topics_by_id.get(_topic_id(fields["topicId"]))
    if topic is None:
        raise CorruptRecordError(f"a record of topic {fields['topicId']}, which does not exist")
    return topic


def _config(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    resource = ConfigResource(ResourceType.of(fields["resourceType"]), fields["resourceName"])
    if resource.type != fields["resourceType"]:
        raise UnsupportedFormatError(f"resource type {fields['resourceType']} of a config is not known")
    settings = image.configs.setdefault(resource, {})
    if fields["value"] is None:
        settings.pop(fields["name"], None)
    else:
        settings[fields["name"]] = fields["value"]
    if not settings:
        del image.configs[resource]
    change.configs.add(resource)


def _register_broker(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    broker = BrokerRegistration.of(fields)
    image.brokers[broker.id] = broker
    change.brokers.add(broker.id)


def _unregister_broker(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    broker = _broker_of(image, fields["brokerId"], fields["brokerEpoch"])
    del image.brokers[broker.id]
    change.brokers.add(broker.id)


def _change_broker(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    broker = _broker_of(image, fields["brokerId"], fields["brokerEpoch"])
    image.brokers[broker.id] = broker.changed(fields)
    change.brokers.add(broker.id)


def _fence_broker(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    _change_broker(image, {"brokerId": fields["id"], "brokerEpoch": fields["epoch"], "fenced": 1}, change)


def _unfence_broker(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    _change_broker(image, {"brokerId": fields["id"], "brokerEpoch": fields["epoch"], "fenced": -1}, change)


def _broker_of(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise CorruptRecordError(f"a record of broker {broker_id} of epoch {epoch}, which is not registered")
    return broker


def _feature_level(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    if fields["name"] == METADATA_VERSION and not fields["featureLevel"]:
        raise CorruptRecordError(f"{METADATA_VERSION} is set to 0, but records need a version")
    if fields["featureLevel"]:
        image.features[fields["name"]] = fields["featureLevel"]
    else:
        image.features.pop(fields["name"], None)
    change.features.add(fields["name"])


def _client_quota(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    types = [part["entityType"] for part in fields["entity"]]
    if not types or len(set(types)) < len(types):
        raise CorruptRecordError(f"a quota for the entity types {types}: at least one is needed, and none twice")
    entity = tuple(sorted((part["entityType"], part["entityName"]) for part in fields["entity"]))
    quotas = image.client_quotas.setdefault(entity, {})
    if fields["remove"]:
        quotas.pop(fields["key"], None)
    else:
        quotas[fields["key"]] = fields["value"]
    if not quotas:
        del image.client_quotas[entity]
    change.quotas.add(entity)


def _user_scram_credential(image: MetadataImage, fields: Mapping[str, Any], _change: MetadataChange) -> None:
    try:
        credential = ScramCredential.of_fields(fields)
    except ValueError:
        raise UnsupportedFormatError(f"SCRAM mechanism {fields['mechanism']} of a user is not known") from None
    image.scram_credentials.setdefault(credential.mechanism, {})[fields["name"]] = credential


def _remove_user_scram_credential(image: MetadataImage, fields: Mapping[str, Any], _change: MetadataChange) -> None:
    users = image.scram_credentials.get(fields["mechanism"], {})
    if users.pop(fields["name"], None) is None:
        raise CorruptRecordError(f"a removal of the SCRAM credential of {fields['name']}, which does not exist")
    if not users:
        del image.scram_credentials[fields["mechanism"]]


def _access_control_entry(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    acl = Acl.of(fields)
    _remove_acl(image, fields["id"], change)
    image.acls[fields["id"]] = acl
    change.added_acls.append(acl)


def _remove_access_control_entry(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    if fields["id"] not in image.acls:
        raise CorruptRecordError(f"a removal of the access control entry {fields['id']}, which does not exist")
    _remove_acl(image, fields["id"], change)


def _remove_acl(image: MetadataImage, acl_id: str, change: MetadataChange) -> None:
    acl = image.acls.pop(acl_id, None)
    if acl is not None:
        change.removed_acls.append(acl)


def _producer_ids(image: MetadataImage, fields: Mapping[str, Any], _change: MetadataChange) -> None:
    if fields["nextProducerId"] not in _PRODUCER_IDS:
        raise CorruptRecordError(f"the next producer id is {fields['nextProducerId']}")
    image.next_producer_id = fields["nextProducerId"]


def _clear_elr(image: MetadataImage, fields: Mapping[str, Any], change: MetadataChange) -> None:
    name = fields["topicName"]
    if name and name not in image.topics:
        raise CorruptRecordError(f"a record of topic {name}, which does not exist")
    for topic in [image.topics[name]] if name else list(image.topics.values()):
        for number, state in list(topic.partitions.items()):
            if state.elr or state.last_known_elr:
                nobody: dict[str, Any] = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
                _set_partition(topic, number, state.changed(nobody), change)


def _register_controller(image: MetadataImage, fields: Mapping[str, Any], _change: MetadataChange) -> None:
    image.controllers[fields["controllerId"]] = fields


def _unregister_controller(image: MetadataImage, fields: Mapping[str, Any], _change: MetadataChange) -> None:
    image.controllers.pop(fields["controllerId"], None)


_APPLIERS: Final[Mapping[str, Applier]] = {
    "TopicRecord": _topic,
    "RemoveTopicRecord": _remove_topic,
    "PartitionRecord": _partition,
    "PartitionChangeRecord": _partition_change,
    "ConfigRecord": _config,
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "BrokerRegistrationChangeRecord": _change_broker,
    "FenceBrokerRecord": _fence_broker,
    "UnfenceBrokerRecord": _unfence_broker,
    "FeatureLevelRecord": _feature_level,
    "ClientQuotaRecord": _client_quota,
    "UserScramCredentialRecord": _user_scram_credential,
    "RemoveUserScramCredentialRecord": _remove_user_scram_credential,
    "AccessControlEntryRecord": _access_control_entry,
    "RemoveAccessControlEntryRecord": _remove_access_control_entry,
    "ProducerIdsRecord": _producer_ids,
    "ClearElrRecord": _clear_elr,
    "RegisterControllerRecord": _register_controller,
    "UnregisterControllerRecord": _unregister_controller,
}

_KEPT: Final[Mapping[str, tuple[str, ...]]] = {
    "DelegationTokenRecord": ("DelegationTokenRecord", "tokenId"),
}
"""The kind and the identifying fields of each record that is kept unchanged."""
_REMOVALS: Final[Mapping[str, str]] = {
    "RemoveDelegationTokenRecord": "DelegationTokenRecord",
}


def _identity(kept: tuple[str, ...], record: MetadataRecord) -> tuple[str, ...]:
    kind, *names = kept
    return (kind, *(str(record.fields[name]) for name in names))
