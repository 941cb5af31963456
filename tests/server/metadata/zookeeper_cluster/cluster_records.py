"""The records that lead from an image to all znodes of a cluster, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.zookeeper.translation import ZooKeeperCluster
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode
from tidelog.server.metadata.zookeeper_cluster.image_records import (
    acl_records,
    broker_records,
    config_records,
    producer_id_records,
    quota_records,
    scram_records,
    topic_records,
)


def cluster_records(
    image: MetadataImage, cluster: ZooKeeperCluster, brokers: Mapping[int, tuple[int, BrokerZnode]]
) -> list[MetadataRecord]:
    """Return the records for a cluster whose znodes were all read: parts that it does not have are removed.

    ``brokers`` has the live brokers with their epochs, as ``broker_records`` takes them. Raise ZnodeError as
    ``topic_records`` does.
    """
    records: list[MetadataRecord] = []
    for broker_id in image.brokers.keys() | brokers.keys():
        records += broker_records(image, broker_id, brokers.get(broker_id))
    for name in image.topics.keys() | cluster.topics.keys():
        records += topic_records(image, name, cluster.topics.get(name))
    for resource in image.configs.keys() | cluster.configs.keys():
        records += config_records(image, resource, cluster.configs.get(resource, {}))
    for entity in image.client_quotas.keys() | cluster.quotas.keys():
        records += quota_records(image, entity, cluster.quotas.get(entity, {}))
    records += _all_scram_records(image, cluster)
    for pattern in {acl.pattern for acl in (*image.acls.values(), *cluster.acls)}:
        records += acl_records(image, pattern, [acl for acl in cluster.acls if acl.pattern == pattern])
    return records + producer_id_records(image, cluster.next_producer_id)


def _all_scram_records(image: MetadataImage, cluster: ZooKeeperCluster) -> Iterator[MetadataRecord]:
    credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
    for user, credential in cluster.users:
        credentials.setdefault(user, {})[credential.mechanism] = credential
    for user in credentials.keys() | {user for users in image.scram_credentials.values() for user in users}:
        yield from scram_records(image, user, credentials.get(user, {}))
