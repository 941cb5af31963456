"""The znodes of an image of the metadata: the inverse of ``translation``. Pure.

The znodes are those of persistent state: the cluster's id, topics with the states of their partitions, settings,
quotas, users, ACLs, the block of producer ids and features. Registrations and elections are left out, because they
belong to sessions. Facts that only KRaft keeps are lost: log directories of replicas, eligible leader replicas,
settings of groups and of client metrics. Source: Kafka's ``ZkMigrationClient``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from tidelog.config.columns import DOUBLE
from tidelog.config.quota_keys import CLIENT_QUOTAS
from tidelog.config.value_text import format_value
from tidelog.server.authorization.acl import Acl, Pattern
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.brokers import PRODUCER_ID_BLOCK
from tidelog.server.metadata.controller.quotas import ADDRESS, CLIENT_ID, USER
from tidelog.server.metadata.image import ConfigResource, MetadataImage, QuotaEntity, Topic
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.acl_znode import acl_path, encode_acls
from tidelog.server.metadata.zookeeper.scram_text import encode_scram
from tidelog.server.metadata.zookeeper.znode_tree import Znode
from tidelog.server.metadata.zookeeper.znodes import (
    ClusterIdZnode,
    ConfigZnode,
    FeatureZnode,
    ProducerIdsZnode,
    StateZnode,
    TopicZnode,
)

_CONFIG_ROOTS: Final = {ResourceType.TOPIC: paths.TOPIC_CONFIGS, ResourceType.BROKER: paths.BROKER_CONFIGS}
_DOUBLES: Final = {name for name, quota in CLIENT_QUOTAS.items() if quota.type == DOUBLE}
"""The quotas that may have a fraction."""
_ENTITY_ROOTS: Final = {CLIENT_ID: paths.CLIENT_CONFIGS, USER: paths.USER_CONFIGS, ADDRESS: paths.ADDRESS_CONFIGS}


def znodes_of(image: MetadataImage, *, controller_epoch: int, features: Mapping[str, int]) -> dict[str, Znode]:
    """Return the znodes by path. ``features`` are the finalized levels of a cluster with ZooKeeper."""
    znodes = {
        paths.CLUSTER_ID: Znode(ClusterIdZnode(image.cluster_id).encode()),
        paths.FEATURE: Znode(FeatureZnode(is_enabled=True, levels=features).encode()),
    }
    for topic in image.topics.values():
        znodes[paths.topic(topic.name)] = Znode(topic_znode(topic).encode())
        for number, state in topic.partitions.items():
            data = state_znode(state, controller_epoch).encode()
            znodes[paths.state(topic.name, number)] = Znode(data, state.partition_epoch)
    znodes |= _settings(image)
    znodes |= {acl_path(pattern): Znode(encode_acls(acls)) for pattern, acls in _acls_by_pattern(image).items()}
    if image.next_producer_id:
        last = image.next_producer_id - 1
        block = ProducerIdsZnode(broker_id=-1, first=max(0, image.next_producer_id - PRODUCER_ID_BLOCK), last=last)
        znodes[paths.PRODUCER_IDS] = Znode(block.encode())
    return znodes


def topic_znode(topic: Topic) -> TopicZnode:
    states = topic.partitions.items()
    return TopicZnode(
        topic_id=topic.id,
        replicas={number: state.replicas for number, state in states},
        adding={number: state.adding for number, state in states},
        removing={number: state.removing for number, state in states},
    )


def state_znode(state: PartitionState, controller_epoch: int) -> StateZnode:
    return StateZnode(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        controller_epoch=controller_epoch,
        isr=state.isr,
        is_recovering=state.is_recovering,
    )


def config_path(resource: ConfigResource) -> str:
    """Return the path of the settings of a topic or broker."""
    return f"{_CONFIG_ROOTS[resource.type]}/{resource.name or paths.DEFAULT}"


def entity_path(entity: QuotaEntity) -> str:
    """Return the path of the settings of a user, client or address."""
    names = {kind: paths.encoded_name(name) for kind, name in entity}
    if USER in names and CLIENT_ID in names:
        return f"{paths.user_clients(f'{paths.USER_CONFIGS}/{names[USER]}')}/{names[CLIENT_ID]}"
    ((kind, name),) = names.items()
    return f"{_ENTITY_ROOTS[kind]}/{name}"


def quota_text(key: str, value: float) -> str:
    """Return a quota as Kafka writes it: a double has a fraction, and other types are whole numbers.
    Source: ``ZkAdminManager.alterClientQuotas``."""
    if key in _DOUBLES or not value.is_integer():
        return format_value(value)
    return str(int(value))


def _settings(image: MetadataImage) -> dict[str, Znode]:
    """Return the znodes below ``/config``. A topic without settings has a znode too, as in Kafka."""
    found: dict[str, dict[str, str]] = {f"{paths.TOPIC_CONFIGS}/{name}": {} for name in image.topics}
    for resource, settings in image.configs.items():
        if resource.type in _CONFIG_ROOTS:
            found[config_path(resource)] = settings
    for entity, quotas in image.client_quotas.items():
        texts = {key: quota_text(key, value) for key, value in quotas.items()}
        found.setdefault(entity_path(entity), {}).update(texts)
    for mechanism, users in image.scram_credentials.items():
        for user, credential in users.items():
            settings = found.setdefault(entity_path(((USER, user),)), {})
            settings[mechanism.title] = encode_scram(credential)
    return {path: Znode(ConfigZnode(settings).encode()) for path, settings in found.items()}


def _acls_by_pattern(image: MetadataImage) -> dict[Pattern, list[Acl]]:
    found: defaultdict[Pattern, list[Acl]] = defaultdict(list)
    for acl in image.acls.values():
        found[acl.pattern].append(acl)
    return found
