"""Checks whether this broker may use its log directories. They run before anything is written there.

======================================================  ==============================================================
directory                                               is refused
======================================================  ==============================================================
``meta.properties`` of version 0                        always: a ZooKeeper broker left it (``tidelog import``)
no ``meta.properties``, but partitions                  always: their owner is unknown (``tidelog import``)
the metadata directory                                  for one of the reasons below
locked by a process                                     not here: to lock it fails with its own error
======================================================  ==============================================================

====================================  ================================================================================
reason, each with a remedy            source
====================================  ================================================================================
voters other than this node           control record KRAFT_VOTERS, or ``quorum-state``; with kraft.version 1 also this
                                      node under another directory id
an unknown kraft.version              control record KRAFT_VERSION
other brokers, if they cannot reach   RegisterBrokerRecord
this node's controller
an unknown feature or level           FeatureLevelRecord
tiered topics                         ConfigRecord ``remote.storage.enable=true`` of a topic
topic names that are not valid: they  TopicRecord with a name that Kafka does not allow, or ``__cluster_metadata``
would become paths
an epoch or offset with hardly any    batches of the log, names of snapshots, ``quorum-state``
room above it
a partition without replicas, with    PartitionRecord, PartitionChangeRecord
another number of directories, or
with a number or epoch that is not
valid
a record of a later release           any record; the image has skipped it
====================================  ================================================================================

A refused directory stays unchanged. The reasons are checked again after the log was opened and before an append,
because recovery may reveal records that could not be read before. Only then are partitions checked, because there may
be very many.

Source: KIP-853, Kafka's ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidelog.model import DirectoryError
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.model.topic_partition import is_legal_topic
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.features import KRAFT_VERSION, LATEST_METADATA_VERSION, SUPPORTED, release_name
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.metadata_view import MetadataView, read_metadata
from tidelog.server.metadata.kraft.quorum import Voters
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, uuid_to_text
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.manager.metadata.cluster_metadata_log import topic_partitions

_WITH_ZOOKEEPER: Final = 0


def require_kraft(fs: FileSystem, path: Path) -> None:
    """Raise DirectoryError if the directory belongs to a ZooKeeper broker, or if its owner is unknown."""
    properties = MetaProperties.read(fs, path / META_PROPERTIES_FILE)
    if properties is not None and properties.version == _WITH_ZOOKEEPER:
        raise DirectoryError(
            f"{META_PROPERTIES_FILE} has version 0: this directory is from a ZooKeeper broker, and its metadata is"
            f" not here. `tidelog import {path}` shows how to create a metadata log",
            path=path,
        )
    if properties is None and (partition := next(topic_partitions(fs, path), None)) is not None:
        raise DirectoryError(
            f"there are partitions ({partition}) but no {META_PROPERTIES_FILE}, so it is unknown to which cluster and"
            f" broker they belong. `tidelog import {path}` shows how to create the metadata",
            path=path,
        )


def require_servable(fs: FileSystem, metadata_directory: Path, node_id: int, *, accepts_brokers: bool = False) -> None:
    """Raise DirectoryError with the reasons and remedies if the metadata cannot be served.

    ``accepts_brokers`` allows other registered brokers, because they can reach the controller. Raise CheckpointError,
    UnsupportedFormatError or CorruptRecordError if it cannot be read.
    """
    reading = ReadOnlyFileSystem(fs)
    if reading.lock_holder(metadata_directory / LOCK_FILE) is not None:
        return
    view = read_metadata(reading, metadata_directory, with_partitions=False)
    if view is None:
        return
    properties = MetaProperties.read(reading, metadata_directory / META_PROPERTIES_FILE)
    directory_id = None if properties is None else properties.directory_id
    reasons = list(unsupported_reasons(view, node_id, directory_id, accepts_brokers=accepts_brokers))
    if reasons:
        raise DirectoryError("; ".join(reasons), path=view.directory)


def require_servable_image(
    image: MetadataImage, directory: Path, node_id: int, *, accepts_brokers: bool = False
) -> None:
    """Raise as ``require_servable`` for an image that was loaded from the metadata log in ``directory``."""
    reasons = list(loaded_unsupported_reasons(image, node_id, accepts_brokers=accepts_brokers))
    if reasons:
        raise DirectoryError("; ".join(reasons), path=directory)


def require_observable_image(image: MetadataImage, directory: Path) -> None:
    """Raise DirectoryError with the reasons if a broker cannot serve the metadata that other controllers keep."""
    checks = (_newer_reasons, _feature_reasons, _topic_reasons, _partition_reasons)
    reasons = [reason for check in checks for reason in check(image)]
    if reasons:
        raise DirectoryError("; ".join(reasons), path=directory)


_EPOCHS: Final = range(2**31 - 2**20)
_LAST_OFFSET: Final = 2**63 - 2**40
"""The largest accepted offset. It leaves room for all later records of a cluster."""
_TIERED: Final = "remote.storage.enable"
_NEWEST_RELEASE: Final = release_name(LATEST_METADATA_VERSION)
_SHOWN: Final = 5
"""The most names in a message."""
_SHOWN_CHARACTERS: Final = 60
"""The most characters of a name that may be anything."""


def unsupported_reasons(
    view: MetadataView, node_id: int, directory_id: uuid.UUID | None, *, accepts_brokers: bool = False
) -> Iterator[str]:
    """Yield the reasons; none if the metadata can be served. ``directory_id`` is the id of the log directory with the
    metadata."""
    yield from _log_reasons(view)
    yield from _quorum_reasons(view.voters, node_id, directory_id)
    yield from _image_reasons(view.image, node_id, accepts_brokers=accepts_brokers)


def loaded_unsupported_reasons(image: MetadataImage, node_id: int, *, accepts_brokers: bool = False) -> Iterator[str]:
    """Yield the reasons as ``unsupported_reasons`` does, for the image of an open log."""
    yield from _image_reasons(image, node_id, accepts_brokers=accepts_brokers)
    yield from _partition_reasons(image)


def _image_reasons(image: MetadataImage, node_id: int, *, accepts_brokers: bool) -> Iterator[str]:
    yield from _newer_reasons(image)
    if not accepts_brokers:
        yield from _broker_reasons(image, node_id)
    yield from _feature_reasons(image)
    yield from _topic_reasons(image)


def _newer_reasons(image: MetadataImage) -> Iterator[str]:
    if image.skipped_records:
        named = [f"offset {one.offset}: {one.reason}" for one in image.skipped_records]
        yield (
            f"a later release of Kafka has written records ({_listed(named)}), and this release serves metadata of"
            f" Kafka up to {_NEWEST_RELEASE}: use the Kafka release that wrote it"
        )


def _log_reasons(view: MetadataView) -> Iterator[str]:
    if view.epoch not in _EPOCHS or view.end_offset > _LAST_OFFSET:
        yield (
            f"the metadata log ends at epoch {view.epoch} and offset {view.end_offset}, which leaves hardly any room"
            " for more: Kafka did not write this. Restore the directory from a trusted copy"
        )


def _quorum_reasons(voters: Voters, node_id: int, directory_id: uuid.UUID | None) -> Iterator[str]:
    if voters.kraft_version not in SUPPORTED[KRAFT_VERSION]:
        yield (
            f"kraft.version {voters.kraft_version} (control record KRAFT_VERSION) is not known here, only"
            f" {SUPPORTED[KRAFT_VERSION]}: a newer Kafka wrote it. Use that Kafka release"
        )
    others = [str(voter) for voter in voters.ids if voter != node_id]
    if others or (voters.kraft_version and not voters.ids):
        yield (
            f"the metadata quorum has the voters {', '.join(map(str, voters.ids)) or 'none'}: node {node_id} can only"
            " keep the metadata of a cluster if it is the only voter. Remove the other voters from the quorum"
            " (kafka-metadata-quorum remove-controller), or start this broker with the voter's node.id"
        )
    for voter in voters.voters if voters.kraft_version else ():
        if voter.id == node_id and directory_id not in (None, voter.directory_id):
            yield (
                f"the voter {node_id} of the metadata quorum has the directory id {uuid_to_text(voter.directory_id)}"
                f" (control record KRAFT_VOTERS), meta.properties has {uuid_to_text(directory_id)}: the log is of"
                " another directory"
            )


def _broker_reasons(image: MetadataImage, node_id: int) -> Iterator[str]:
    others = [str(broker) for broker in sorted(image.brokers) if broker != node_id]
    if others:
        yield (
            f"other brokers are registered (RegisterBrokerRecord of {_listed(others)}), but they cannot reach this"
            " node's controller: add its listener (controller.listener.names) to listeners. Or, with Kafka, move"
            f" their partitions to node {node_id} and unregister them (kafka-cluster unregister --id ID)"
        )


def _feature_reasons(image: MetadataImage) -> Iterator[str]:
    for name, level in image.features.items():
        levels = SUPPORTED.get(name)
        if levels is not None and level in levels:
            continue
        known = f"knows {levels}" if levels is not None else "does not know that feature"
        yield (
            f"{name} is at level {level} (FeatureLevelRecord), and this release {known}, as Kafka {_NEWEST_RELEASE}"
            " has it: use the Kafka release that wrote it, or downgrade the feature with that release (kafka-features"
            " downgrade)"
        )


def _partition_reasons(image: MetadataImage) -> Iterator[str]:
    found = [
        f"{topic.name}-{number}: {flaw}"
        for topic, number, state in image.partitions()
        if (flaw := _flaw(number, state)) is not None
    ]
    if found:
        yield (
            f"there are partitions that are not valid (PartitionRecord, PartitionChangeRecord of {_listed(found)}):"
            " Kafka did not write this log. Restore the directory from a trusted copy"
        )


def _flaw(number: int, state: PartitionState) -> str | None:
    if number < 0:
        return "a number below 0"
    if not state.replicas:
        return "no replicas"
    if len(state.directories) != len(state.replicas):
        return f"{len(state.replicas)} replicas in {len(state.directories)} directories"
    if state.leader_epoch not in _EPOCHS or state.partition_epoch not in _EPOCHS:
        return f"leader epoch {state.leader_epoch}, partition epoch {state.partition_epoch}"
    return None


def _topic_reasons(image: MetadataImage) -> Iterator[str]:
    odd = sorted(name for name in image.topics if not is_legal_topic(name) or name == CLUSTER_METADATA_TOPIC)
    if odd:
        yield (
            f"there are topics (TopicRecord of {_listed([repr(name[:_SHOWN_CHARACTERS]) for name in odd])}) whose names"
            " are not valid, and they would become directory names. Kafka does not allow them, so another program"
            " wrote this log: restore the directory from a trusted copy"
        )
    tiered = sorted(
        resource.name
        for resource, settings in image.configs.items()
        if resource.type is ResourceType.TOPIC and settings.get(_TIERED, "").lower() == "true"
    )
    if tiered:
        yield (
            f"there are tiered topics (ConfigRecord {_TIERED}=true of {_listed(tiered)}), but remote storage is not"
            f" supported: with Kafka, set {_TIERED}=false and remote.log.delete.on.disable=true for them, or delete"
            " them"
        )


def _listed(names: list[str]) -> str:
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
