"""Snapshots of the metadata: files that replace the log below an offset.

``OFFSET-EPOCH.checkpoint`` (20 and 10 digits) lies next to the log's segments. OFFSET is the first offset that is not
in it, and EPOCH is the epoch of its last record. Its batches have offsets from 0 on::

    control   SNAPSHOT_HEADER (time of the last record in it), KRAFT_VERSION, KRAFT_VOTERS (if kraft.version is 1)
    records   as many batches as are needed, with the records that recreate the image
    control   SNAPSHOT_FOOTER

The first records of a new cluster have the same format. Kafka 4.4 writes them to the snapshot of offset 0 and epoch 0,
and those records are never part of the image (KIP-1170). Older releases wrote ``bootstrap.checkpoint`` in each log
directory. A snapshot is written as ``….part``, synced and renamed, so a name without suffix is complete. It is renamed
to ``….deleted`` before it is removed.
Source: Kafka's ``RecordsSnapshotWriter``, ``Snapshots``, ``MetadataImage.write``; KIP-630.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tidelog.model import CheckpointError, CorruptRecordError
from tidelog.record.control import ControlType
from tidelog.server.metadata.controller.acls import acl_record
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.image import METADATA_VERSION, MetadataImage
from tidelog.server.metadata.kraft.batches import (
    MAX_BATCH_BYTES,
    MetadataBatch,
    build_control,
    build_records,
    read_batches,
)
from tidelog.server.metadata.kraft.quorum import ControlRecord
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import uuid_to_text
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY, SnapshotId

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
DELETED_SUFFIX: Final = ".deleted"
PART_SUFFIX: Final = ".part"
_LEFTOVER: Final = re.compile(r"[0-9]{20}-[0-9]{10}.*\.checkpoint\.(part|deleted)")
_RECORD_OVERHEAD: Final = 32
"""The most bytes that a batch needs for a record in addition to its value."""


BOOTSTRAP_ID: Final = SnapshotId(0, 0)
"""The snapshot that formatting leaves, with the voters and the first records of a new cluster."""


def build_snapshot(
    values: Iterable[bytes],
    *,
    epoch: int = 0,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: Sequence[ControlRecord] = (),
) -> bytes:
    """Return the bytes of a snapshot of encoded records."""
    header = ControlRecord(ControlType.SNAPSHOT_HEADER, {"version": 0, "lastContainedLogTimestamp": last_timestamp_ms})
    out = build_control([header, *quorum], base_offset=0, epoch=epoch, now_ms=now_ms)
    offset = 1 + len(quorum)
    for batch in _split(values):
        out += build_records(batch, base_offset=offset, epoch=epoch, now_ms=now_ms)
        offset += len(batch)
    footer = ControlRecord(ControlType.SNAPSHOT_FOOTER, {"version": 0})
    out += build_control([footer], base_offset=offset, epoch=epoch, now_ms=now_ms)
    return bytes(out)


def _split(values: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for value in values:
        if batch and size + len(value) + _RECORD_OVERHEAD > MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value) + _RECORD_OVERHEAD
    if batch:
        yield batch


def read_snapshot(fs: FileSystem, path: Path) -> list[MetadataBatch]:
    """Return all batches. Raise CheckpointError if the file is damaged or incomplete."""
    try:
        batches = list(read_batches(memoryview(read_whole(fs, path))))
    except CorruptRecordError as error:
        raise CheckpointError(f"a snapshot cannot be read: {error}", path=path) from None
    if not batches or not _has(batches[0], ControlType.SNAPSHOT_HEADER):
        raise CheckpointError("the snapshot does not begin with its header", path=path)
    if not _has(batches[-1], ControlType.SNAPSHOT_FOOTER):
        raise CheckpointError("the snapshot does not end with its footer", path=path)
    return batches


def read_bootstrap_records(fs: FileSystem, log_directory: Path) -> list[MetadataRecord]:
    """Return the first records of a new cluster, from the first file that has any, or an empty list.

    Raise CheckpointError if a file is damaged.
    """
    for path in (log_directory / METADATA_DIRECTORY / BOOTSTRAP_ID.file_name, log_directory / BOOTSTRAP_FILE):
        batches = read_snapshot(fs, path) if fs.exists(path) else []
        records = [record for batch in batches for record in batch.records]
        if records:
            return records
    return []


def read_image_batches(fs: FileSystem, directory: Path, id_: SnapshotId) -> list[MetadataBatch]:
    """Return the batches of a snapshot that belong to the image: of ``BOOTSTRAP_ID`` only the control batches.

    Raise CheckpointError as ``read_snapshot`` does. Source: Kafka's ``MetadataLoader.handleLoadBootstrap``.
    """
    batches = read_snapshot(fs, directory / id_.file_name)
    return [batch for batch in batches if batch.control_records] if id_ == BOOTSTRAP_ID else batches


def _has(batch: MetadataBatch, type_: ControlType) -> bool:
    return any(record.type is type_ for record in batch.control_records)


def write_whole(fs: FileSystem, path: Path, data: bytes) -> None:
    """Write the file atomically and durably. A link with the name of the part file is removed and not followed."""
    part = path.with_name(path.name + PART_SUFFIX)
    fs.remove(part, missing_ok=True)
    with fs.open(part, create=True) as file:
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
    fs.rename(part, path)
    fs.sync_dir(path.parent)


def leftover_files(fs: FileSystem, directory: Path) -> list[Path]:
    """Return the files of unfinished and of deleted snapshots."""
    return [directory / name for name in fs.list_names(directory) if _LEFTOVER.fullmatch(name)]


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Yield the records that recreate an image, in Kafka's order: each record finds the objects that it refers to."""
    yield from _features(image)
    for broker in image.brokers.values():
        yield MetadataRecord("RegisterBrokerRecord", broker.fields())
    for fields in image.controllers.values():
        yield MetadataRecord("RegisterControllerRecord", fields)
    yield from _topics(image)
    for resource, settings in image.configs.items():
        for key, value in settings.items():
            yield config_record(resource, key, value)
    yield from _quotas(image)
    if image.next_producer_id:
        yield MetadataRecord(
            "ProducerIdsRecord", {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": image.next_producer_id}
        )
    for acl_id, acl in image.acls.items():
        yield acl_record(acl_id, acl)
    for users in image.scram_credentials.values():
        for user, credential in users.items():
            yield MetadataRecord("UserScramCredentialRecord", credential.fields(user))
    yield from image.delegation_tokens.values()


def _features(image: MetadataImage) -> Iterator[MetadataRecord]:
    yield feature_record(METADATA_VERSION, image.metadata_version)
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield feature_record(name, level)


def _topics(image: MetadataImage) -> Iterator[MetadataRecord]:
    for topic in image.topics.values():
        topic_id = uuid_to_text(topic.id)
        yield MetadataRecord("TopicRecord", {"name": topic.name, "topicId": topic_id})
        for number, state in topic.partitions.items():
            yield MetadataRecord("PartitionRecord", {"partitionId": number, "topicId": topic_id, **state.fields()})


def _quotas(image: MetadataImage) -> Iterator[MetadataRecord]:
    for entity, quotas in image.client_quotas.items():
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, value in quotas.items():
            yield MetadataRecord("ClientQuotaRecord", {"entity": parts, "key": key, "value": value, "remove": False})
