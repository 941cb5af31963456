"""The copies of the cluster metadata in several log directories, and the newest of them.

Every broker and controller has a copy of the metadata log, and a copy may lag. The newest one has the highest epoch,
and then the highest end, as in an election of the quorum. Finding an end reads the batches' headers and CRCs, but
decodes no record. The module only reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import CancelledError, TidelogError
from tidelog.runtime.progress import Advance
from tidelog.storage.checkpoint import QuorumState
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import list_with_sizes
from tidelog.storage.manager.metadata.cluster_metadata_log import (
    METADATA_DIRECTORY,
    SnapshotId,
    list_snapshots,
    read_log_chunks,
)
from tidelog.storage.segment.file_names import FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataCopy:
    """The metadata log of a log directory. ``error`` is the reason if it cannot be read."""

    log_directory: Path
    directory: Path
    """The directory of the log and its snapshots."""
    log_start: int | None = None
    """The base offset of the first segment; None without a segment."""
    end_offset: int = 0
    """The end of the newest snapshot or of the last valid batch."""
    epoch: int = 0
    log_bytes: int = 0
    snapshots: tuple[SnapshotId, ...] = ()
    state: QuorumState | None = None
    error: TidelogError | None = None


def survey_metadata_copy(
    fs: FileSystem, log_directory: Path, advance: Advance = lambda _bytes: None
) -> MetadataCopy | None:
    """Return a directory's copy, or None if it has no metadata log. ``advance`` receives the bytes read."""
    directory = log_directory / METADATA_DIRECTORY
    log_start, size, end, epoch = None, 0, 0, 0
    snapshots: tuple[SnapshotId, ...] = ()
    state: QuorumState | None = None
    error: TidelogError | None = None
    try:
        if not fs.exists(directory):
            return None
        snapshots = tuple(list_snapshots(fs, directory))
        if snapshots:
            end, epoch = snapshots[-1]
        segments = list_with_sizes(fs, directory).segments
        size = sum(max(0, segment.sizes[FileKind.LOG]) for segment in segments)
        log_start = segments[0].base_offset if segments else None
        for chunk in read_log_chunks(fs, directory):
            advance(len(chunk.buffer))
            if len(chunk.table):
                summary = chunk.table.summary
                end, epoch = max(end, summary.last_offset + 1), max(epoch, summary.leader_epoch)
        state = QuorumState.read(fs, directory)
    except CancelledError:
        raise
    except TidelogError as found:
        error = found
    return MetadataCopy(
        log_directory=log_directory,
        directory=directory,
        log_start=log_start,
        end_offset=end,
        epoch=max(epoch, 0 if state is None else state.epoch),
        log_bytes=size,
        snapshots=snapshots,
        state=state,
        error=error,
    )


def newest_first(copies: Iterable[MetadataCopy]) -> list[MetadataCopy]:
    """Return the copies with the newest first. Copies that cannot be read come last."""
    return sorted(copies, key=lambda one: (one.error is None, one.epoch, one.end_offset), reverse=True)


def metadata_log_bytes(fs: FileSystem, log_directory: Path) -> int:
    """Return the bytes of a directory's metadata log: the total for a progress bar."""
    directory = log_directory / METADATA_DIRECTORY
    if not fs.exists(directory):
        return 0
    return sum(size for name, size in fs.list_sizes(directory).items() if name.endswith(FileKind.LOG) and size > 0)
