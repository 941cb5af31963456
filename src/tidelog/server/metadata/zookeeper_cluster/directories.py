"""The log directories of a broker that keeps its metadata in ZooKeeper: checked, and formatted if they are new.

==============================================  ======================================================================
``meta.properties``                             result
==============================================  ======================================================================
missing                                         written, also next to partitions: brokers before 0.8.2 had no such file
version 0 of this broker and cluster            stays; a missing broker, cluster or directory id is added
version 0 of another broker or cluster          ConfigError
version 1                                       DirectoryError: the metadata of the directory is not in ZooKeeper
==============================================  ======================================================================

Kafka 3.9 starts on the files, and this broker starts on Kafka's. The directory id is Kafka's of a broker that is ready
for a migration (KIP-858); here moves between log directories need it. A file is replaced atomically under the
directory's lock. A crash leaves some directories unchanged, and the next start goes on. Nothing is written if one of
them is refused. Thread rule: a background thread. Source: Kafka's ``KafkaServer.startup``, ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.model import ConfigError, DirectoryError
from tidelog.runtime import Clock
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, random_uuid, written_at
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE

_VERSION: Final = 0
_log = logging.getLogger(__name__)


def stored_broker_id(fs: FileSystem, directories: Sequence[Path]) -> int | None:
    """Return the broker id in the log directories, or None if none has one. Raise ConfigError if they differ, and
    DirectoryError for a directory of a cluster without ZooKeeper."""
    ids = {path: found.node_id for path, found in _read(fs, directories).items() if found.node_id is not None}
    stored = next(iter(ids.values()), None)
    for path, other in ids.items():
        if other != stored:
            raise _other_broker(path, other, stored)
    return stored


def format_directories(
    fs: FileSystem, directories: Sequence[Path], node_id: int, cluster_id: str, clock: Clock
) -> None:
    """Check the log directories and write the files that are missing or incomplete. They are durable on return.

    Raise ConfigError for a directory of another broker or cluster, DirectoryError for one of a cluster without
    ZooKeeper, and LockedError if another process uses a directory that would be written.
    """
    found = _read(fs, directories)
    _check(found, node_id, cluster_id)
    for path in dict.fromkeys(directories):
        known = found.get(path, MetaProperties(version=_VERSION))
        directory_id = known.directory_id or random_uuid()
        wanted = replace(known, cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
        if wanted != known:
            _write(fs, path, replace(wanted, written_at=written_at(clock.now_ms())))


def _read(fs: FileSystem, directories: Sequence[Path]) -> dict[Path, MetaProperties]:
    """Return the properties of the formatted directories."""
    read = {path: MetaProperties.read(fs, path / META_PROPERTIES_FILE) for path in directories}
    found = {path: properties for path, properties in read.items() if properties is not None}
    for path, properties in found.items():
        if properties.version != _VERSION:
            raise DirectoryError(
                f"{META_PROPERTIES_FILE} has version {properties.version}: the cluster of this directory keeps its"
                " metadata in a metadata log, not in ZooKeeper. Start it with process.roles instead of"
                " zookeeper.connect, or use other log directories (log.dirs)",
                path=path,
            )
    return found


def _check(found: Mapping[Path, MetaProperties], node_id: int, cluster_id: str) -> None:
    owners: dict[uuid.UUID | Path, Path] = {}
    for path, properties in found.items():
        if properties.node_id not in (None, node_id):
            raise _other_broker(path, properties.node_id, node_id)
        if properties.cluster_id not in (None, cluster_id):
            raise ConfigError(
                f"Invalid cluster.id in: {path}. Expected {cluster_id}, but read {properties.cluster_id}. Check that"
                " zookeeper.connect has the chroot of this cluster"
            )
        owner = owners.setdefault(properties.directory_id or path, path)
        if owner != path:
            raise ConfigError(f"{owner} and {path} have the same directory.id: one is a copy of the other")


def _other_broker(path: Path, stored: int | None, expected: int | None) -> ConfigError:
    return ConfigError(
        f"Stored node id {stored} doesn't match previous node id {expected} in {path}. If you moved your data, make"
        " sure your configured broker.id matches. If you intend to create a new broker, you should remove all data in"
        " your data directories."
    )


def _write(fs: FileSystem, path: Path, properties: MetaProperties) -> None:
    if not fs.exists(path):
        fs.make_dir(path)
        fs.sync_dir(path.absolute().parent)
    lock = fs.lock(path / LOCK_FILE)
    try:
        properties.write(fs, path / META_PROPERTIES_FILE)
    finally:
        lock.release()
    _log.info("%s is of broker %s of cluster %s now", path, properties.node_id, properties.cluster_id)
