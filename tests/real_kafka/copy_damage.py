"""Damage to a copy of a partition that the comparison of a mirror must find."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from real_kafka.stored_batches import StoredBatch, batches_of_file
from tidelog.kernel import crc32c
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT

BASE_TIMESTAMP_END = 35


def remove_batch(copy: Path) -> None:
    """Remove the first batch of the last segment with two."""
    path, batches = last_with_two(copy)
    path.write_bytes(b"".join(batch.data for batch in batches[1:]))


def remove_last_of_a_key(copy: Path) -> None:
    """Remove a batch that has the last record of a key, but not the last batch."""
    seen: set[bytes | None] = set()
    last = True
    for path in sorted(copy.glob("*.log"), reverse=True):
        batches = list(batches_of_file(path))
        for batch in reversed(batches):
            keys = {record.key for record in batch.records()}
            if not last and not keys <= seen:
                path.write_bytes(b"".join(one.data for one in batches if one is not batch))
                return
            seen |= keys
            last = False
    raise AssertionError(f"the last batch of {copy} has every key")


def change_timestamps(copy: Path) -> None:
    """Change the timestamps of a batch, and its checksum with them."""
    path, batches = last_with_two(copy)
    first = bytearray(batches[0].data)
    first[BASE_TIMESTAMP_END - 1] ^= 1
    first[17:21] = crc32c(bytes(first[21:])).to_bytes(4, "big")
    path.write_bytes(bytes(first) + b"".join(batch.data for batch in batches[1:]))


def last_with_two(copy: Path) -> tuple[Path, list[StoredBatch]]:
    for path in sorted(copy.glob("*.log"), reverse=True):
        batches = list(batches_of_file(path))
        if len(batches) > 1:
            return path, batches
    raise AssertionError(f"no segment of {copy} has two batches")


def remove_end(copy: Path) -> None:
    """Remove the last batch."""
    path, batches = last_with_two(copy)
    for later in copy.glob("*.log"):
        if later > path:
            later.unlink()
    path.write_bytes(b"".join(batch.data for batch in batches[:-1]))


def change_epoch(copy: Path) -> None:
    (copy / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n7 0\n")


def change_topic_id(copy: Path) -> None:
    (copy / PARTITION_METADATA_FILE).write_bytes(PartitionMetadata(topic_id=uuid.uuid4()).to_bytes())


FAULTS: dict[Callable[[Path], None], str] = {
    remove_batch: "instead of batch",
    change_timestamps: "instead of batch",
    remove_end: r"\[\d+, \d+\) instead of",
    change_epoch: "epochs {7: 0} instead of",
    change_topic_id: "topic_id",
}
COMPACTED_FAULTS: dict[Callable[[Path], None], str] = {
    remove_last_of_a_key: r"the record at offset \d+ is missing",
    change_timestamps: "is none that the leader served",
}
