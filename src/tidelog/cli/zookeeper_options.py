"""The options for a cluster that keeps its metadata in ZooKeeper, and the metadata that commands take from there.

The modules that read ZooKeeper are imported with the first address: most runs have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.setting_options import properties
from tidelog.model import ConfigError
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import BY_PATH
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata

if TYPE_CHECKING:
    from tidelog.server.metadata.zookeeper.translation import ZooKeeperCluster
    from tidelog.server.metadata.zookeeper.znode_tree import ZnodeTree

F = TypeVar("F", bound=Callable[..., Any])


def zookeeper_options(text: str) -> Callable[[F], F]:
    """Add the parameters ``zookeeper`` and ``zookeeper_config``. ``text`` is the help of the first one."""

    def add(command: F) -> F:
        config = click.option(
            "--zookeeper-config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="A properties file with the broker's zookeeper.* keys: timeouts, and zookeeper.ssl.* for TLS.",
        )
        address = click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help=text)
        return address(config(command))

    return add


settings_from_zookeeper = zookeeper_options(
    "Take the settings of topics and brokers from ZooKeeper, for directories of a broker before Kafka 4. The address is"
    " that in zookeeper.connect."
)
"""Adds the options to a command that needs settings."""


def read_cluster(zookeeper: str | None, config: Path | None) -> ZooKeeperCluster | None:
    """Return the metadata in ZooKeeper, or None without an address. Raise ZooKeeperError and ZnodeError."""
    if (tree := _read(zookeeper, config, settings_only=False)) is None:
        return None
    from tidelog.server.metadata.zookeeper.translation import translate

    return translate(tree)


def read_topic_settings(zookeeper: str | None, config: Path | None, paths: Iterable[Path]) -> TopicMetadata | None:
    """Return the settings in ZooKeeper, or None without an address. Warn on stderr of settings that Kafka 4 does not
    accept. Raise ConfigError if a log directory has metadata of its own, or belongs to another cluster."""
    if (tree := _read(zookeeper, config, settings_only=True)) is None:
        return None
    from tidelog.server.configs.resource_type import ResourceType
    from tidelog.server.metadata.zookeeper.translation import translate
    from tidelog.server.metadata.zookeeper_import.cluster_source import broker_settings
    from tidelog.server.metadata.zookeeper_import.cluster_topics import usable_settings

    cluster = translate(tree)
    for path in paths:
        _require_of(cluster.cluster_id, path)
    topics = {}
    for name, settings in cluster.settings_of(ResourceType.TOPIC).items():
        topics[name], unusable = usable_settings(settings)
        for one in unusable:
            click.echo(f"Warning: {name}: {one} has no effect.", err=True)
    brokers, _ = broker_settings(cluster)
    return TopicMetadata(
        topic_settings=topics, broker_settings={one.name: dict(found) for one, found in brokers.items()}
    )


def _read(zookeeper: str | None, config: Path | None, *, settings_only: bool) -> ZnodeTree | None:
    if zookeeper is None:
        if config is not None:
            raise click.UsageError("--zookeeper-config needs --zookeeper.")
        return None
    from tidelog.server.metadata.zookeeper.chroot_reader import read_chroot, read_settings
    from tidelog.server.metadata.zookeeper.connection import connection_settings
    from tidelog.server.metadata.zookeeper.kazoo_client import KazooReader

    with KazooReader(connection_settings(zookeeper, properties(config))) as reader:
        return read_settings(reader) if settings_only else read_chroot(reader)


def _require_of(cluster_id: str | None, path: Path) -> None:
    if BY_PATH.exists(path / METADATA_DIRECTORY):
        raise ConfigError(f"{path} has cluster metadata of its own: --zookeeper is for brokers before Kafka 4")
    found = MetaProperties.read(BY_PATH, path / META_PROPERTIES_FILE)
    if found is not None and None not in (found.cluster_id, cluster_id) and found.cluster_id != cluster_id:
        raise ConfigError(f"{path} is of the cluster {found.cluster_id}, and ZooKeeper has {cluster_id}")
