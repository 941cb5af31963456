"""The formatting of new log directories, as ``kafka-storage format`` of Kafka 4.4 does it.

=======================================  ===========================================================================
file                                     contents
=======================================  ===========================================================================
``__cluster_metadata-0/…-….checkpoint``  in the metadata directory: the first records of the cluster (KIP-1170). If
                                         the log keeps the quorum's voters (``--standalone``), kraft.version and the
                                         only voter come before them
``meta.properties``                      cluster, node and directory id; written last, so it completes a directory
=======================================  ===========================================================================

A directory with a ``meta.properties`` stays unchanged. It must be of this node and of the same cluster as the others,
and pass ``directory_check``. A new directory next to formatted ones gets its files, as after the replacement of a disk.
A crash leaves a directory without ``meta.properties``, which is formatted again.
Source: Kafka's ``Formatter``, ``MetaPropertiesEnsemble``; KIP-631, KIP-853.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, DirectoryError
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.runtime import Clock
from tidelog.server.metadata.features import release_name, version_set_by
from tidelog.server.metadata.image import MINIMUM_METADATA_VERSION
from tidelog.server.metadata.kraft.bootstrap_records import NEW_CLUSTER_RECORDS
from tidelog.server.metadata.kraft.directory_check import require_kraft, require_servable
from tidelog.server.metadata.kraft.quorum import ControlRecord, Voter, Voters
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_ID, build_snapshot, write_whole
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, random_uuid, uuid_to_text, written_at
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY

_VERSION: Final = 1
_KRAFT_VERSION: Final = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRequest:
    node_id: int
    directories: Sequence[Path]
    """All log directories, including the metadata directory."""
    metadata_directory: Path
    controller: BrokerEndpoint | None
    """The voter's endpoint, or None if the nodes' properties list the voters."""
    cluster_id: str | None = None
    """The cluster id, or None to use that of the directories or a new one."""
    first_records: Sequence[MetadataRecord] = NEW_CLUSTER_RECORDS
    """The first records of the cluster, features first."""
    directory_ids: Mapping[Path, uuid.UUID] = field(default_factory=dict)
    """The known ids of directories. The other directories get new ids."""
    accepts_brokers: bool = False
    """True if the controller serves other brokers, which may be registered then."""
    is_controller: bool = True
    """False for a node without the controller role: the first records of the cluster are its controllers'."""

    def files_of(self, path: Path) -> list[str]:
        """Return the names of the files that a new directory gets."""
        snapshot = [f"{METADATA_DIRECTORY}/{BOOTSTRAP_ID.file_name}"] if self.has_snapshot(path) else []
        return [*snapshot, META_PROPERTIES_FILE]

    def has_snapshot(self, path: Path) -> bool:
        """Return True if a new directory gets the first records of the cluster."""
        return self.is_controller and path == self.metadata_directory

    @property
    def metadata_version(self) -> int:
        """The metadata.version in the first records, or the oldest supported one."""
        return version_set_by(self.first_records) or MINIMUM_METADATA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """The formatted directories, and the directories to format."""

    formatted: Mapping[Path, MetaProperties]
    new: Sequence[Path]
    cluster_id: str | None
    """The cluster id, or None if a new one is needed."""


def plan_format(fs: FileSystem, request: FormatRequest) -> FormatPlan:
    """Return the plan and write nothing. Raise ConfigError for a directory of another node or cluster, and
    DirectoryError if it cannot be served."""
    for path in request.directories:
        if fs.exists(path):
            require_kraft(fs, path)
    found = {path: _properties(fs, path) for path in request.directories}
    known = {path: properties for path, properties in found.items() if properties is not None}
    cluster_id = _agreed_cluster(request, known)
    if request.is_controller:
        require_servable(fs, request.metadata_directory, request.node_id, accepts_brokers=request.accepts_brokers)
    return FormatPlan(formatted=known, new=[path for path in found if path not in known], cluster_id=cluster_id)


def format_directories(fs: FileSystem, request: FormatRequest, clock: Clock) -> dict[Path, MetaProperties]:
    """Format the new directories, and return the properties of all directories.

    Raise as ``plan_format`` does, and DirectoryError if the metadata directory cannot be created.
    """
    plan = plan_format(fs, request)
    known = dict(plan.formatted)
    if not request.is_controller and plan.cluster_id is None:
        raise ConfigError(
            f"log.dirs: no log directory of broker {request.node_id} is formatted, so its cluster is unknown: run"
            " tidelog format with --cluster-id and the id of the cluster (kafka-cluster cluster-id)"
        )
    cluster_id = plan.cluster_id or uuid_to_text(random_uuid())
    for path in plan.new:
        if not fs.exists(path):
            fs.make_dir(path)
            fs.sync_dir(path.absolute().parent)
        lock = fs.lock(path / LOCK_FILE)
        try:
            known[path] = format_directory(fs, request, path, cluster_id, clock)
        finally:
            lock.release()
    return known


def metadata_directory_of(config: BrokerConfig) -> Path:
    configured = config["metadata.log.dir"]
    return Path(str(configured) if configured else config.log_dirs[0])


def _properties(fs: FileSystem, path: Path) -> MetaProperties | None:
    return MetaProperties.read(fs, path / META_PROPERTIES_FILE) if fs.exists(path) else None


def _agreed_cluster(request: FormatRequest, known: Mapping[Path, MetaProperties]) -> str | None:
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
    return wanted


def format_directory(
    fs: FileSystem,
    request: FormatRequest,
    path: Path,
    cluster_id: str,
    clock: Clock,
    *,
    before_last: Callable[[], None] = lambda: None,
) -> MetaProperties:
    """Format one directory, even if it has a ``meta.properties``. It is durable on return.

    The caller holds its lock. ``before_last`` runs before ``meta.properties`` completes the directory.
    """
    directory_id = request.directory_ids.get(path) or random_uuid()
    now_ms = clock.now_ms()
    if request.has_snapshot(path):
        _write_first_snapshot(fs, request, directory_id, now_ms)
    before_last()
    properties = MetaProperties(
        version=_VERSION,
        cluster_id=cluster_id,
        node_id=request.node_id,
        directory_id=directory_id,
        written_at=written_at(now_ms),
    )
    properties.write(fs, path / META_PROPERTIES_FILE)
    release = release_name(request.metadata_version)
    _log.info("Formatted %s for node %d of cluster %s, release %s", path, request.node_id, cluster_id, release)
    return properties


def _write_first_snapshot(fs: FileSystem, request: FormatRequest, directory_id: uuid.UUID, now_ms: int) -> None:
    directory = request.metadata_directory / METADATA_DIRECTORY
    if fs.exists(directory) and any(name.endswith(".log") for name in fs.list_names(directory)):
        raise DirectoryError("there is a metadata log in a directory without meta.properties", path=directory)
    fs.make_dir(directory)
    fs.sync_dir(directory.parent)
    quorum: Sequence[ControlRecord] = ()
    if request.controller is not None:
        voter = Voter(request.node_id, directory_id, (request.controller,))
        quorum = Voters(kraft_version=_KRAFT_VERSION, voters=(voter,)).control_records()
    first = [encode_record(record, request.metadata_version) for record in request.first_records]
    data = build_snapshot(first, last_timestamp_ms=now_ms, now_ms=now_ms, quorum=quorum)
    write_whole(fs, directory / BOOTSTRAP_ID.file_name, data)
