"""Make new log directories a broker's: what ``kafka-storage format`` leaves, of Kafka 4.1.

=======================================  ===========================================================================
file                                     contents
=======================================  ===========================================================================
``bootstrap.checkpoint``                 the features that the cluster begins with, as metadata records
``__cluster_metadata-0/…-….checkpoint``  in the directory of the metadata, where the quorum's voters are to stand in
                                         the log (``--standalone``): kraft.version and the one voter
``meta.properties``                      cluster, node and directory id; written last: with it a directory is whole
=======================================  ===========================================================================

A directory with a ``meta.properties`` is not touched, but has to be of this node and of the same cluster as the others,
and one that can be served (``directory_check``).
New directories beside formatted ones get their files (a disk was replaced). What a crash leaves: a directory without
``meta.properties``, which is formatted again. Called by: ``EmbeddedMetadata``. Source: Kafka's ``Formatter``,
``MetaPropertiesEnsemble``; KIP-631, KIP-853.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.model import ConfigError, DirectoryError
from tidelog.runtime import Clock
from tidelog.server.metadata.broker_registration import Endpoint
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.features import NEW_CLUSTER, release_name
from tidelog.server.metadata.image import METADATA_VERSION
from tidelog.server.metadata.kraft.directory_check import require_kraft, require_servable
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_FILE, BOOTSTRAP_ID, build_snapshot, write_whole
from tidelog.server.metadata.kraft.voters import Voter, Voters
from tidelog.server.metadata.metadata_record import encode_record
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, random_uuid, uuid_to_text, written_at
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.cluster_metadata import METADATA_DIRECTORY

_VERSION: Final = 1
_KRAFT_VERSION: Final = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    node_id: int
    directories: Sequence[Path]
    """All log directories, that of the metadata among them."""
    metadata_directory: Path
    controller: Endpoint | None
    """Where the voter listens; None where the voters stand in the properties of the nodes."""
    cluster_id: str | None = None
    """None: that of the directories, or a new one."""


def format_directories(fs: FileSystem, request: FormatRequest, clock: Clock) -> dict[Path, MetaProperties]:
    """The properties of all that can be used, by directory.

    ConfigError for a directory of another node or cluster, DirectoryError for one that cannot be served, or a metadata
    directory that cannot be made. Nothing was written then.
    """
    for path in request.directories:
        if fs.exists(path):
            require_kraft(fs, path)
    found = {path: _properties(fs, path) for path in request.directories}
    known = {path: properties for path, properties in found.items() if properties is not None}
    cluster_id = _agreed_cluster(request, known)
    require_servable(fs, request.metadata_directory, request.node_id)
    for path, properties in found.items():
        if properties is None:
            known[path] = _format(fs, request, path, cluster_id, clock)
    return known


def _properties(fs: FileSystem, path: Path) -> MetaProperties | None:
    return MetaProperties.read(fs, path / META_PROPERTIES_FILE) if fs.exists(path) else None


def _agreed_cluster(request: FormatRequest, known: Mapping[Path, MetaProperties]) -> str:
    for path, properties in known.items():
        if properties.node_id not in (None, request.node_id):
            raise ConfigError(
                f"Stored node id {properties.node_id} doesn't match previous node id {request.node_id} in {path}."
                " If you moved your data, make sure your configured node id matches. If you intend to create a new"
                " node, you should remove all data in your data directories."
            )
    clusters = {properties.cluster_id: path for path, properties in known.items()}
    wanted = request.cluster_id or next(iter(clusters), None)
    other = next((cluster for cluster in clusters if cluster != wanted), None)
    if other is not None:
        raise ConfigError(f"Invalid cluster.id in: {clusters[other]}. Expected {wanted}, but read {other}")
    return wanted or uuid_to_text(random_uuid())


def _format(fs: FileSystem, request: FormatRequest, path: Path, cluster_id: str, clock: Clock) -> MetaProperties:
    if not fs.exists(path):
        fs.make_dir(path)
        fs.sync_dir(path.absolute().parent)
    lock = fs.lock(path / LOCK_FILE)
    try:
        directory_id = random_uuid()
        now_ms = clock.now_ms()
        write_whole(fs, path / BOOTSTRAP_FILE, build_snapshot(_first_records(), last_timestamp_ms=0, now_ms=now_ms))
        if path == request.metadata_directory:
            _write_voter(fs, request, directory_id, now_ms)
        properties = MetaProperties(
            version=_VERSION,
            cluster_id=cluster_id,
            node_id=request.node_id,
            directory_id=directory_id,
            written_at=written_at(now_ms),
        )
        properties.write(fs, path / META_PROPERTIES_FILE)
    finally:
        lock.release()
    release = release_name(NEW_CLUSTER[METADATA_VERSION])
    _log.info("Formatted %s for node %d of cluster %s, release %s", path, request.node_id, cluster_id, release)
    return properties


def _first_records() -> list[bytes]:
    level = NEW_CLUSTER[METADATA_VERSION]
    return [encode_record(feature_record(name, found), level) for name, found in NEW_CLUSTER.items()]


def _write_voter(fs: FileSystem, request: FormatRequest, directory_id: uuid.UUID, now_ms: int) -> None:
    if request.controller is None:
        return
    directory = request.metadata_directory / METADATA_DIRECTORY
    if fs.exists(directory) and any(name.endswith(".log") for name in fs.list_names(directory)):
        raise DirectoryError("there is a metadata log in a directory without meta.properties", path=directory)
    fs.make_dir(directory)
    fs.sync_dir(directory.parent)
    voter = Voter(request.node_id, directory_id, (request.controller,))
    quorum = Voters(kraft_version=_KRAFT_VERSION, voters=(voter,)).control_records()
    data = build_snapshot((), last_timestamp_ms=now_ms, now_ms=now_ms, quorum=quorum)
    write_whole(fs, directory / BOOTSTRAP_ID.file_name, data)
