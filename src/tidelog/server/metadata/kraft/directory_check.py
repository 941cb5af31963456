"""Checks whether this broker may use its log directories. They run before anything is written there.

======================================================  ==============================================================
directory                                               is refused
======================================================  ==============================================================
``meta.properties`` of version 0                        always: a ZooKeeper broker left it (``tidelog import``)
no ``meta.properties``, but partitions                  always: their owner is unknown (``tidelog import``)
the metadata directory                                  if ``unsupported_metadata`` finds a reason; checked again,
                                                        with the partitions, when the log is loaded
locked by a process                                     not here: to lock it fails with its own error
======================================================  ==============================================================

Source: KIP-853, Kafka's ``MetaPropertiesEnsemble``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.model import DirectoryError
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.server.metadata.kraft.unsupported_metadata import loaded_unsupported_reasons, unsupported_reasons
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
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


def require_servable(fs: FileSystem, metadata_directory: Path, node_id: int) -> None:
    """Raise DirectoryError with the reasons and remedies if the metadata cannot be served.

    Raise CheckpointError, UnsupportedFormatError or CorruptRecordError if it cannot be read.
    """
    reading = ReadOnlyFileSystem(fs)
    if reading.lock_holder(metadata_directory / LOCK_FILE) is not None:
        return
    view = read_metadata(reading, metadata_directory, with_partitions=False)
    if view is None:
        return
    properties = MetaProperties.read(reading, metadata_directory / META_PROPERTIES_FILE)
    reasons = list(unsupported_reasons(view, node_id, None if properties is None else properties.directory_id))
    if reasons:
        raise DirectoryError("; ".join(reasons), path=view.directory)


def require_servable_image(image: MetadataImage, directory: Path, node_id: int) -> None:
    """Raise as ``require_servable`` for an image that was loaded from the metadata log in ``directory``."""
    reasons = list(loaded_unsupported_reasons(image, node_id))
    if reasons:
        raise DirectoryError("; ".join(reasons), path=directory)
