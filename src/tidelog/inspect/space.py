"""The space that each partition's directory takes, from names and sizes alone. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import DirectoryError, FileMissingError, TopicPartition
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import (
    DirectoryPurpose,
    FileKind,
    FileState,
    PartitionDirectoryName,
    SegmentFileName,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpace:
    """``name`` is the directory's. ``log_bytes`` counts the ``.log`` files that are live, ``bytes`` all files."""

    name: str
    partition: TopicPartition
    purpose: DirectoryPurpose
    segments: int
    log_bytes: int
    bytes: int


def survey_space(
    fs: FileSystem, path: Path, names: Iterable[str], advance: Advance = lambda _count: None
) -> list[PartitionSpace]:
    """Return the space of the named directories; names of other directories are skipped, and so are removed ones.

    ``advance`` receives the number of finished directories.
    """
    found = []
    for name in names:
        try:
            parsed = PartitionDirectoryName.parse(name)
            sizes = fs.list_sizes(path / name)
        except (DirectoryError, FileMissingError):
            continue  # another kind of directory, or a broker removed it meanwhile
        logs = [size for file, size in sizes.items() if _is_live_log(file)]
        found.append(
            PartitionSpace(
                name=name,
                partition=parsed.topic_partition,
                purpose=parsed.purpose,
                segments=len(logs),
                log_bytes=sum(logs),
                bytes=sum(size for size in sizes.values() if size > 0),
            )
        )
        advance(1)
    return found


def _is_live_log(file: str) -> bool:
    if not file.endswith(FileKind.LOG):
        return False
    parsed = SegmentFileName.parse(file)
    return parsed is not None and parsed.state is FileState.LIVE
