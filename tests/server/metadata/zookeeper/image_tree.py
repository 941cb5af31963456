"""The znodes of a whole image, for tests of the translations in both directions.

The znodes are those of persistent state: the cluster's id, topics with the states of their partitions, settings,
quotas, users, ACLs, the block of producer ids and features. Registrations and elections are left out, because they
belong to sessions. Settings of groups and of client metrics have no znodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tidelog.server.authorization.acl import Acl, Pattern
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.brokers import PRODUCER_ID_BLOCK
from tidelog.server.metadata.controller.quotas import USER
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.acl_znode import acl_path, encode_acls
from tidelog.server.metadata.zookeeper.image_znodes import config_path, entity_path, quota_text, state_znode
from tidelog.server.metadata.zookeeper.scram_text import encode_scram
from tidelog.server.metadata.zookeeper.znode_tree import Znode
from tidelog.server.metadata.zookeeper.znodes import (
    ClusterIdZnode,
    ConfigZnode,
    FeatureZnode,
    ProducerIdsZnode,
    TopicZnode,
)


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


def _settings(image: MetadataImage) -> dict[str, Znode]:
    """Return the znodes below ``/config``. A topic without settings has a znode too, as in Kafka."""
    found: dict[str, dict[str, str]] = {f"{paths.TOPIC_CONFIGS}/{name}": {} for name in image.topics}
    for resource, settings in image.configs.items():
        if resource.type in (ResourceType.TOPIC, ResourceType.BROKER):
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
