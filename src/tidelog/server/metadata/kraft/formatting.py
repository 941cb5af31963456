"""Make new log directories a broker's: what ``kafka-storage format`` leaves, of Kafka 4.4.

=======================================  ===========================================================================
file                                     contents
=======================================  ===========================================================================
``__cluster_metadata-0/…-….checkpoint``  in the directory of the metadata: the records that the cluster begins with
                                         (KIP-1170). Before them, where the quorum's voters are to stand in the log
                                         (``--standalone``): kraft.version and the one voter
``meta.properties``                      cluster, node and directory id; written last: with it a directory is whole
=======================================  ===========================================================================

A directory with a ``meta.properties`` is not touched, but has to be of this node and of the same cluster as the others,
and one that can be served (``directory_check``). New directories beside formatted ones get their files (a disk was
replaced). What a crash leaves: a directory without ``meta.properties``, which is formatted again.
Called by: ``EmbeddedMetadata``, ``tidelog format``. Source: Kafka's ``Formatter``, ``MetaPropertiesEnsemble``; KIP-631,
KIP-853.
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
from tidelog.runtime import Clock
from tidelog.server.metadata.broker_registration import Endpoint
from tidelog.server.metadata.features import release_name, version_set_by
from tidelog.server.metadata.image import MINIMUM_METADATA_VERSION
from tidelog.server.metadata.kraft.directory_check import require_kraft, require_servable
from tidelog.server.metadata.kraft.first_records import NEW_RECORDS
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_ID, build_snapshot, write_whole
from tidelog.server.metadata.kraft.voters import ControlRecord, Voter, Voters
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
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
    first_records: Sequence[MetadataRecord] = NEW_RECORDS
    """What the cluster begins with; features first."""
    directory_ids: Mapping[Path, uuid.UUID] = field(default_factory=dict)
    """Of directories whose ids are known before; the others get new ones."""

    def files_of(self, path: Path) -> list[str]:
        """Names of what a new directory gets."""
        snapshot = [f"{METADATA_DIRECTORY}/{BOOTSTRAP_ID.file_name}"] if path == self.metadata_directory else []
        return [*snapshot, META_PROPERTIES_FILE]

    @property
    def metadata_version(self) -> int:
        """That the first records say, or the oldest there is."""
        return version_set_by(self.first_records) or MINIMUM_METADATA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    """What there is, and what is to be made."""

    formatted: Mapping[Path, MetaProperties]
    new: Sequence[Path]
    cluster_id: str | None
    """None: a new one."""


def plan_format(fs: FileSystem, request: FormatRequest) -> FormatPlan:
    """Nothing is written. ConfigError for a directory of another node or cluster, DirectoryError for one that cannot be
    served."""
    for path in request.directories:
        if fs.exists(path):
            require_kraft(fs, path)
    found = {path: _properties(fs, path) for path in request.directories}
    known = {path: properties for path, properties in found.items() if properties is not None}
    cluster_id = _agreed_cluster(request, known)
    require_servable(fs, request.metadata_directory, request.node_id)
    return FormatPlan(formatted=known, new=[path for path in found if path not in known], cluster_id=cluster_id)


def format_directories(fs: FileSystem, request: FormatRequest, clock: Clock) -> dict[Path, MetaProperties]:
    """The properties of all that can be used, by directory.

    As ``plan_format``; DirectoryError for a metadata directory that cannot be made, too.
    """
    plan = plan_format(fs, request)
    known = dict(plan.formatted)
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
    """Whatever its ``meta.properties`` said; durable on return. The caller has locked it.

    ``before_last``: done before ``meta.properties`` says that the directory is whole.
    """
    directory_id = request.directory_ids.get(path) or random_uuid()
    now_ms = clock.now_ms()
    if path == request.metadata_directory:
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
