"""A cluster on the model of ZooKeeper: its tree and image, and decisions of the controller's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import strategies as st

from server.metadata.images import settings
from server.metadata.zookeeper.znode_model import ModelZooKeeper
from server.metadata.zookeeper_cluster.cluster_records import cluster_records
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller import leaders, topics
from tidelog.server.metadata.controller.acls import create_acls, delete_acls
from tidelog.server.metadata.controller.brokers import allocate_producer_ids
from tidelog.server.metadata.controller.configs import replace_configs
from tidelog.server.metadata.controller.quotas import alter_client_quotas
from tidelog.server.metadata.controller.reassignments import alter_reassignments
from tidelog.server.metadata.image import ConfigResource, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import MIGRATING
from tidelog.server.metadata.requests import (
    ElectionType,
    NewPartitions,
    NewTopic,
    PartitionAlteration,
    QuotaChange,
    Reassignment,
)
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.translation import ZooKeeperCluster, translate
from tidelog.server.metadata.zookeeper.znode_tree import Znode, ZnodeTree
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode

BROKERS = (1, 2, 3)
PERSISTENT = (
    paths.BROKER_IDS,
    paths.TOPICS,
    paths.DELETED_TOPICS,
    paths.TOPIC_CONFIGS,
    paths.BROKER_CONFIGS,
    paths.CLIENT_CONFIGS,
    paths.USER_CONFIGS,
    paths.ADDRESS_CONFIGS,
    paths.LITERAL_ACLS,
    paths.PREFIXED_ACLS,
    "/config/changes",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)
"""The znodes that every cluster has, as far as decisions need them."""


def new_cluster() -> ModelZooKeeper:
    return ModelZooKeeper(dict.fromkeys(PERSISTENT, b""))


def tree_of_model(zookeeper: ModelZooKeeper) -> ZnodeTree:
    found = zookeeper.table.all()
    return ZnodeTree.of({path: Znode(one.data, one.version, one.child_count) for path, one in found.items()})


def cluster_of(zookeeper: ModelZooKeeper) -> ZooKeeperCluster:
    return translate(tree_of_model(zookeeper))


def image_of_model(zookeeper: ModelZooKeeper) -> MetadataImage:
    """Return the image, in which three brokers are alive."""
    image = MetadataImage()
    followed(image, zookeeper)
    return image


def followed(image: MetadataImage, zookeeper: ModelZooKeeper) -> MetadataImage:
    """Let the image follow the znodes, and return it."""
    brokers = {
        broker: (
            broker * 10,
            BrokerZnode(listeners=(BrokerEndpoint("PLAINTEXT", f"host-{broker}", 9092),), timestamp_ms=0),
        )
        for broker in BROKERS
    }
    for record in cluster_records(image, cluster_of(zookeeper), brokers):
        image.apply(record)
    return image


def settled(image: MetadataImage) -> tuple[object, ...]:
    """Return the parts of an image that ZooKeeper keeps, in a form that can be compared."""
    return (
        {
            name: (
                topic.id,
                {
                    number: replace(state, directories=(MIGRATING,) * len(state.replicas))
                    for number, state in topic.partitions.items()
                },
            )
            for name, topic in image.topics.items()
        },
        {
            resource: found
            for resource, found in image.configs.items()
            if resource.type is not ResourceType.TOPIC or resource.name in image.topics
        },
        image.client_quotas,
        image.scram_credentials,
        set(image.acls.values()),
        image.next_producer_id,
    )


# --- decisions ---

Decide = Callable[[MetadataImage, st.DataObject], Sequence[MetadataRecord]]

_NAMES = st.sampled_from(["t", "c.d"])
_WORDS = st.sampled_from(["u", "v w", "<default>", "ü/x"])
_BROKER_SETS = st.permutations(BROKERS).flatmap(lambda all_: st.integers(1, 3).map(lambda count: tuple(all_[:count])))
_PATTERNS = st.builds(
    Pattern,
    st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP]),
    st.sampled_from(["a", "ü b"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
_ACLS = st.builds(
    Acl,
    pattern=_PATTERNS,
    principal=st.sampled_from(["User:u", "User:v w"]),
    host=st.just("*"),
    operation=st.sampled_from([Operation.READ, Operation.WRITE]),
    permission=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
_ENTITIES = st.one_of(
    st.tuples(st.tuples(st.just("client-id"), st.none() | _WORDS)),
    st.tuples(st.tuples(st.just("user"), st.none() | _WORDS)),
    st.tuples(st.tuples(st.just("client-id"), st.none() | _WORDS), st.tuples(st.just("user"), st.none() | _WORDS)),
)
_RATES = st.dictionaries(
    st.sampled_from(["producer_byte_rate", "request_percentage"]),
    st.none() | st.integers(1, 99).map(float),
    min_size=1,
)


def _create(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    retention = st.sampled_from([{}, {"retention.ms": "5"}, {"retention.ms": "6", "cleanup.policy": "compact"}])
    wanted = [
        NewTopic(name=name, partitions=data.draw(st.integers(1, 3)), replication_factor=2, configs=data.draw(retention))
        for name in data.draw(st.lists(_NAMES, min_size=1, max_size=2, unique=True))
    ]
    return topics.create_topics(image, settings(), wanted).records


def _delete(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return topics.delete_topics(image, [data.draw(_NAMES)]).records


def _add_partitions(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    wanted = [NewPartitions(topic=data.draw(_NAMES), total=data.draw(st.integers(2, 5)))]
    return topics.create_partitions(image, settings(), wanted).records


def _alter_isr(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return [
        record
        for topic, number, state in image.partitions()
        if state.has_leader and data.draw(st.booleans())
        for record in leaders.alter_partitions(
            image,
            settings(),
            state.leader,
            [
                PartitionAlteration(
                    topic_id=topic.id,
                    partition=number,
                    isr=_isr(state.leader, state.replicas, data),
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                )
            ],
        ).records
    ]


def _isr(leader: int, replicas: tuple[int, ...], data: st.DataObject) -> list[int]:
    return [broker for broker in replicas if broker == leader or data.draw(st.booleans())]


def _lose_broker(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return leaders.remove_broker(image, settings(), data.draw(st.sampled_from(BROKERS)))


def _gain_broker(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return leaders.add_broker(image, settings(), data.draw(st.sampled_from(BROKERS)))


def _elect(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return leaders.elect_leaders(image, settings(), data.draw(st.sampled_from(ElectionType)), None).records


def _reassign(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    wanted = [Reassignment(data.draw(_NAMES), 0, data.draw(st.none() | _BROKER_SETS))]
    return alter_reassignments(image, settings(), wanted, may_change_factor=True).records


def _configure(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    resource = data.draw(
        st.builds(ConfigResource, st.just(ResourceType.TOPIC), _NAMES)
        | st.builds(ConfigResource, st.just(ResourceType.BROKER), st.sampled_from(["", "1"]))
    )
    keys = ("retention.ms", "flush.ms") if resource.type is ResourceType.TOPIC else ("log.retention.ms",)
    values = st.dictionaries(st.sampled_from(keys), st.integers(1, 9).map(str))
    return replace_configs(image, settings(), {resource: data.draw(values)}).records


def _set_quotas(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    changes = [
        QuotaChange(entity, [*data.draw(_RATES).items()])
        for entity in data.draw(st.lists(_ENTITIES, min_size=1, max_size=3, unique=True))
    ]
    return alter_client_quotas(image, changes).records


def _set_credentials(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    mechanism, user = data.draw(st.sampled_from(ScramMechanism)), data.draw(_WORDS)
    if user in image.scram_credentials.get(mechanism, {}):
        return [MetadataRecord("RemoveUserScramCredentialRecord", {"name": user, "mechanism": int(mechanism)})]
    new = ScramCredential.of_salted_password(mechanism, b"salted", iterations=4096, salt=b"salt")
    return [MetadataRecord("UserScramCredentialRecord", new.fields(user))]


def _allow(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return create_acls(image, data.draw(st.lists(_ACLS, max_size=3))).records


def _forbid(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    operation = data.draw(st.sampled_from([Operation.ANY, Operation.READ]))
    return delete_acls(image, [AclFilter(operation=operation)]).records


def _take_producer_ids(image: MetadataImage, data: st.DataObject) -> Sequence[MetadataRecord]:
    return allocate_producer_ids(image, data.draw(st.sampled_from(BROKERS)), 1).records


DECISIONS: Sequence[Decide] = (
    _create,
    _delete,
    _add_partitions,
    _alter_isr,
    _lose_broker,
    _gain_broker,
    _elect,
    _reassign,
    _configure,
    _set_quotas,
    _set_credentials,
    _allow,
    _forbid,
    _take_producer_ids,
)
"""Functions that decide on an image, as a user's request or the controller would."""
