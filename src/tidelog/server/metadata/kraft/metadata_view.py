"""A read-only view of the cluster metadata in a log directory.

It has the newest snapshot and the log after it, or for a new cluster its first records. Nothing is written, locked or
kept open. After a crash the view is the same as after recovery: complete batches up to the first damaged one.
Records of an unfinished transaction do not count. Thread rule: any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.record.internal_records.metadata_tables import MESSAGES
from tidelog.runtime.progress import Advance
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.batches import chunk_batches
from tidelog.server.metadata.kraft.quorum import Voters, past_voters
from tidelog.server.metadata.kraft.replay import MetadataReplay
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_FILE, read_bootstrap_records, read_image_batches
from tidelog.storage.checkpoint import QuorumState
from tidelog.storage.fs import FileSystem
from tidelog.storage.manager.metadata.cluster_metadata_log import (
    METADATA_DIRECTORY,
    SnapshotId,
    list_snapshots,
    read_log_chunks,
)

_PARTITIONS: Final = frozenset(MESSAGES[name].api_key for name in ("PartitionRecord", "PartitionChangeRecord"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataView:
    directory: Path
    """The directory of the log and its snapshots."""
    image: MetadataImage
    voters: Voters
    """The voters of the log or of ``quorum-state``; none if neither has any."""
    state: QuorumState | None
    snapshot: SnapshotId | None
    """The newest snapshot."""
    end_offset: int
    epoch: int
    is_empty: bool
    """True if the log has no metadata record. The image then has the first records of the new cluster."""


def read_metadata(
    fs: FileSystem,
    log_directory: Path,
    *,
    with_partitions: bool = True,
    advance: Advance = lambda _bytes: None,
) -> MetadataView | None:
    """Return the view, or None if there is neither a metadata log nor a ``bootstrap.checkpoint``.

    If ``with_partitions`` is False, topics have no partitions, and a large log is read in a fraction of the time.
    ``advance`` receives the bytes of the log as they are read. Raise CheckpointError if a snapshot or ``quorum-state``
    cannot be read. Raise CorruptRecordError if a record is not valid or contradicts the records before it. Records of a
    later release are in the image's ``skipped_records``.
    """
    directory = log_directory / METADATA_DIRECTORY
    has_log = fs.exists(directory)
    if not has_log and not fs.exists(log_directory / BOOTSTRAP_FILE):
        return None
    state = QuorumState.read(fs, directory) if has_log else None
    known = list_snapshots(fs, directory) if has_log else []
    newest = known[-1] if known else None
    image = MetadataImage()
    replay = MetadataReplay(image, past_voters(state.voters or () if state else ()), path=directory)
    start_offset, epoch = newest or SnapshotId(0, 0)
    end_offset = start_offset
    for batch in read_image_batches(fs, directory, newest) if newest else ():
        replay.apply(batch)
    skipped_types = () if with_partitions else _PARTITIONS
    for chunk in read_log_chunks(fs, directory) if has_log else ():
        for batch in chunk_batches(chunk, start_offset=start_offset, skipped_types=skipped_types):
            replay.apply(batch)
            end_offset, epoch = batch.last_offset + 1, max(epoch, batch.epoch)
        advance(len(chunk.buffer))
    is_empty = replay.is_empty
    replay.apply_bootstrap(read_bootstrap_records(fs, log_directory) if is_empty else ())
    return MetadataView(
        directory=directory,
        image=image,
        voters=replay.voters,
        state=state,
        snapshot=newest,
        end_offset=end_offset,
        epoch=max(epoch, 0 if state is None else state.epoch),
        is_empty=is_empty,
    )
