"""The files next to a log as JSON objects: indexes, snapshots, checkpoints and markers.

The functions only read. They raise a TidelogError for an unreadable file, after yielding the objects before the error.
Thread rule: one thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidelog.inspect.dump.json_payload import Json
from tidelog.model import CheckpointError
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.storage.checkpoint import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    QUORUM_STATE_FILE,
    RECOVERY_POINT_CHECKPOINT,
    MetaProperties,
    OffsetCheckpoint,
    PartitionMetadata,
)
from tidelog.storage.checkpoint.clean_shutdown import parse_broker_epoch
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader, TransactionIndexReader
from tidelog.storage.producer.snapshot import parse_snapshot

FileJson = Callable[[bytes, Path, int], Iterator[Json]]
"""A function from contents, path and base offset (0 if the name has none) to JSON objects."""


def offset_index_json(data: bytes, path: Path, base_offset: int) -> Iterator[Json]:
    written = OffsetIndexReader(data, base_offset, path=path).valid_prefix()
    for offset, position in zip(*(column.tolist() for column in written.entries()), strict=True):
        yield {"type": "offset_index_entry", "offset": offset, "position": position}
    yield from _rest_of_index(data, len(written) * OffsetIndexReader.ENTRY_SIZE)


def time_index_json(data: bytes, path: Path, base_offset: int) -> Iterator[Json]:
    written = TimeIndexReader(data, base_offset, path=path).valid_prefix()
    for timestamp, offset in zip(*(column.tolist() for column in written.entries()), strict=True):
        yield {"type": "time_index_entry", "timestamp": timestamp, "offset": offset}
    yield from _rest_of_index(data, len(written) * TimeIndexReader.ENTRY_SIZE)


def _rest_of_index(data: bytes, end: int) -> Iterator[Json]:
    """Yield an error if bytes other than zeros (preallocation) follow: they are entries that do not ascend."""
    if any(data[end:]):
        yield {
            "type": "error",
            "message": "the entries from here on do not ascend",
            "position": end,
            "offset": None,
        }


def transaction_index_json(data: bytes, path: Path, base_offset: int) -> Iterator[Json]:
    for aborted in TransactionIndexReader(data, base_offset, path=path):
        yield {"type": "aborted_transaction", **aborted._asdict()}


def producer_snapshot_json(data: bytes, path: Path, _base_offset: int) -> Iterator[Json]:
    for entry in parse_snapshot(data, path=path):
        last = entry.batches[-1] if entry.batches else None
        yield {
            "type": "producer",
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_timestamp": entry.last_timestamp,
            "transaction_first_offset": entry.transaction_first_offset,
            "last_batch": None if last is None else {"first_sequence": last.first_sequence, **last._asdict()},
        }


def offset_checkpoint_json(data: bytes, path: Path, _base_offset: int) -> Iterator[Json]:
    for partition, offset in OffsetCheckpoint.parse(data, path=path).items():
        yield {"type": "checkpoint_entry", "topic": partition.topic, "partition": partition.partition, "offset": offset}


def leader_epochs_json(data: bytes, path: Path, _base_offset: int) -> Iterator[Json]:
    for epoch, start_offset in LeaderEpochCheckpoint.parse(data, path=path):
        yield {"type": "leader_epoch", "epoch": epoch, "start_offset": start_offset}


def partition_metadata_json(data: bytes, path: Path, _base_offset: int) -> Iterator[Json]:
    yield {"type": "partition_metadata", "topic_id": PartitionMetadata.parse(data, path=path).topic_id_text}


def meta_properties_json(data: bytes, path: Path, _base_offset: int) -> Iterator[Json]:
    meta = MetaProperties.parse(data, path=path)
    yield {
        "type": "meta_properties",
        "version": meta.version,
        "cluster_id": meta.cluster_id,
        "node_id": meta.node_id,
        "directory_id": None if meta.directory_id is None else uuid_to_text(meta.directory_id),
    }


def clean_shutdown_json(data: bytes, _path: Path, _base_offset: int) -> Iterator[Json]:
    yield {"type": "clean_shutdown", "broker_epoch": parse_broker_epoch(data)}


def quorum_state_json(data: bytes, path: Path, _base_offset: int) -> Iterator[Json]:
    """Yield the file's object, which is JSON already: Kafka's field names, with the version in ``data_version``."""
    try:
        state: Any = json.loads(data)
    except ValueError as error:
        raise CheckpointError(f"the quorum state is not JSON: {error}", path=path) from None
    if not isinstance(state, dict):
        raise CheckpointError("the quorum state is not a JSON object", path=path)
    yield {"type": "quorum_state", "fields": state}


BY_SUFFIX: dict[str, FileJson] = {
    ".index": offset_index_json,
    ".timeindex": time_index_json,
    ".txnindex": transaction_index_json,
    ".snapshot": producer_snapshot_json,
}
BY_NAME: dict[str, FileJson] = {
    RECOVERY_POINT_CHECKPOINT: offset_checkpoint_json,
    LOG_START_CHECKPOINT: offset_checkpoint_json,
    HIGH_WATERMARK_CHECKPOINT: offset_checkpoint_json,
    CLEANER_CHECKPOINT: offset_checkpoint_json,
    LEADER_EPOCH_CHECKPOINT: leader_epochs_json,
    PARTITION_METADATA_FILE: partition_metadata_json,
    META_PROPERTIES_FILE: meta_properties_json,
    CLEAN_SHUTDOWN_FILE: clean_shutdown_json,
    QUORUM_STATE_FILE: quorum_state_json,
}
