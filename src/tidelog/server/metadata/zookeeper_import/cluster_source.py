"""The cluster in ZooKeeper as the source of an import: whether it is the directories' own, and its broker settings."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.broker_keys import broker_key, unknown_key_text
from tidelog.model import ConfigError
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.configs import MIN_ISR
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.translation import Untranslated, ZooKeeperCluster


def require_source(cluster: ZooKeeperCluster, node_id: int, cluster_id: str | None) -> None:
    """Raise ConfigError if ZooKeeper has another cluster, this broker runs, or KRaft has newer metadata."""
    if cluster.cluster_id is None and not cluster.topics:
        raise ConfigError("ZooKeeper has neither topics nor a cluster id: is the chroot right (zookeeper.connect)?")
    if None not in (cluster_id, cluster.cluster_id) and cluster_id != cluster.cluster_id:
        raise ConfigError(
            f"ZooKeeper has the cluster {cluster.cluster_id}, and the directories are of {cluster_id}: the address or"
            " the chroot is another one"
        )
    if cluster.has_migration:
        raise ConfigError(
            f"{paths.MIGRATION} shows that a migration to KRaft has begun, so the KRaft controllers may have newer"
            " metadata: finish the migration with Kafka, and use their metadata"
        )
    if node_id in cluster.brokers:
        raise ConfigError(
            f"ZooKeeper has broker {node_id} as running: stop it. After a kill, wait until its session has expired"
            " (zookeeper.session.timeout.ms)"
        )


def broker_settings(
    cluster: ZooKeeperCluster,
) -> tuple[dict[ConfigResource, Mapping[str, str]], list[Untranslated]]:
    """Return the settings of brokers for the import, and the names of the others with their reasons."""
    found: dict[ConfigResource, Mapping[str, str]] = {}
    secrets, unusable = [], []
    for name, settings in cluster.settings_of(ResourceType.BROKER).items():
        usable = {}
        for key, value in settings.items():
            whose = f"broker {name or paths.DEFAULT} {key}"
            known = broker_key(key)
            if name and key == MIN_ISR:
                unusable.append(f"{whose} (KIP-966: only all brokers together have one)")
            elif known is None:
                unusable.append(f"{whose} ({unknown_key_text(key)})")
            elif known.is_secret:
                secrets.append(whose)
            elif (problem := _problem(key, value)) is not None:
                unusable.append(f"{whose} ({problem})")
            else:
                usable[key] = value
        if usable:
            found[ConfigResource(ResourceType.BROKER, name)] = usable
    return found, [
        Untranslated("passwords that are encrypted with password.encoder.secret", secrets),
        Untranslated("broker settings that Kafka 4 does not accept", unusable),
    ]


def _problem(key: str, value: str) -> str | None:
    known = broker_key(key)
    assert known is not None
    try:
        known.parse(value)
    except ConfigError as error:
        return error.message
    return None
