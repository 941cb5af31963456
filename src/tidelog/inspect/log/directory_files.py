"""The files of a partition's directory that belong to no segment, each with its meaning and its future. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.storage.checkpoint.partition_metadata import PARTITION_METADATA_FILE
from tidelog.storage.checkpoint.quorum_state import QUORUM_STATE_FILE
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import TEMPORARY_SUFFIX
from tidelog.storage.log.load.leftover_files import CleanupPlan
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId
from tidelog.storage.segment.file_names import FileKind, FileState, SegmentFileName

_KNOWN = {
    LEADER_EPOCH_CHECKPOINT: "the leader epochs and the offsets at which they begin",
    PARTITION_METADATA_FILE: "the topic id",
    QUORUM_STATE_FILE: "the vote of this node in the metadata quorum",
}
_STATES = {
    FileState.CLEANED: "an unfinished result of cleaning or splitting",
    FileState.SWAP: "a result of cleaning or splitting that replaces the segments that it covers",
    FileState.DELETED: "a file of a deleted segment, which waits for file.delete.delay.ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFile:
    """``size`` is in bytes, None for a directory. ``is_leftover`` marks a file that the next start removes or renames;
    ``next_start`` is the clause about it."""

    name: str
    size: int | None
    meaning: str
    is_leftover: bool
    next_start: str


def describe_files(sizes: Mapping[str, int], cleanup: CleanupPlan) -> tuple[DirectoryFile, ...]:
    """Return the files, sorted by name. ``sizes`` are those of ``FileSystem.list_sizes``."""
    return tuple(_described(sizes, cleanup))


def _described(sizes: Mapping[str, int], cleanup: CleanupPlan) -> Iterator[DirectoryFile]:
    removals, renames = frozenset(cleanup.removals), dict(cleanup.renames)
    for name, size in sorted(sizes.items()):
        parsed = SegmentFileName.parse(name)
        is_leftover = name in removals or name in renames
        if parsed is not None and parsed.state is FileState.LIVE and not is_leftover:
            continue  # a segment's file, or a producer snapshot
        if name in removals:
            next_start = "it is removed"
        else:
            next_start = f"it becomes {renames[name]}" if name in renames else "it stays"
        yield DirectoryFile(
            name=name,
            size=None if size < 0 else size,
            meaning=_meaning(name, size, parsed),
            is_leftover=is_leftover,
            next_start=next_start,
        )


def _meaning(name: str, size: int, parsed: SegmentFileName | None) -> str:
    if name.endswith(TEMPORARY_SUFFIX):
        return "an unfinished small file, which replaces another one once it is complete"
    if parsed is not None:
        if parsed.state is FileState.LIVE:
            is_index = parsed.kind not in (FileKind.LOG, FileKind.SNAPSHOT)
            return "an index without its segment" if is_index else "replaced by a .swap file"
        return _STATES[parsed.state]
    if SnapshotId.parse(name) is not None:
        return "a snapshot of the cluster metadata"
    if name in _KNOWN:
        return _KNOWN[name]
    return "a directory, which brokers ignore" if size < 0 else "a file that brokers do not know"
