"""What the small files of a log directory say about its partitions, read once, as one frozen value.

Three conditions, decided by two questions (who holds ``.lock``, is the clean-shutdown marker there):

=========  ==========================================  =====================================================
condition  how it is known                             what a reader believes
=========  ==========================================  =====================================================
HELD       a process holds ``.lock``                   every whole batch; records up to the checkpointed HW
CLEAN      nobody holds it, the marker is there        every file
KILLED     nobody holds it, no marker                  segments below the recovery point; past it, what a CRC
                                                       proves, as recovery would leave it
=========  ==========================================  =====================================================

An unreadable recovery-point or log-start checkpoint counts as empty, as for Kafka, and leaves a warning. Reading takes
no lock (``lock_holder`` asks for the holder of a record lock without taking it) and changes nothing.
Called by: the view, directories, inspection. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.model import CheckpointError, FileMissingError, TopicPartition
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileStat, FileSystem

LOCK_FILE = ".lock"


class Condition(enum.StrEnum):
    """How a log directory was left."""

    HELD = "held"
    CLEAN = "clean"
    KILLED = "killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryState:
    """Offsets by partition; a partition that a checkpoint does not name is missing from its mapping."""

    path: Path
    condition: Condition
    holder: int | None = None
    """Process id of whoever holds the lock."""
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    checkpoints: Mapping[str, ReadCheckpoint] = field(default_factory=dict, repr=False)
    """By file name, for the next reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCheckpoint:
    """A checkpoint file as it was read; it is replaced as a whole, so the same size and time mean the same contents."""

    stat: FileStat | None
    offsets: Mapping[TopicPartition, int]
    warning: str | None = None


def read_directory_state(
    fs: FileSystem, path: Path, previous: DirectoryState | None = None, *, held_here: bool = False
) -> DirectoryState:
    """Read lock, marker and checkpoints of a log directory; none of them has to be there.

    With ``previous`` a checkpoint that has not changed since is not read again: one of thousands of partitions takes
    milliseconds, and whoever follows a log asks ten times a second. ``held_here``: the caller holds the lock, so the
    condition is the one in which the last owner left the directory.
    """
    holder = None if held_here else fs.lock_holder(path / LOCK_FILE)
    if holder is not None:
        condition = Condition.HELD
    else:
        condition = Condition.CLEAN if CleanShutdownFile(fs, path).exists() else Condition.KILLED
    before = {} if previous is None else previous.checkpoints
    names = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    checkpoints = {name: _read_checkpoint(fs, path / name, before.get(name)) for name in names}
    return DirectoryState(
        path=path,
        condition=condition,
        holder=holder,
        recovery_points=checkpoints[RECOVERY_POINT_CHECKPOINT].offsets,
        log_start_offsets=checkpoints[LOG_START_CHECKPOINT].offsets,
        high_watermarks=checkpoints[HIGH_WATERMARK_CHECKPOINT].offsets,
        warnings=tuple(read.warning for read in checkpoints.values() if read.warning is not None),
        checkpoints=checkpoints,
    )


def _read_checkpoint(fs: FileSystem, path: Path, before: ReadCheckpoint | None) -> ReadCheckpoint:
    try:
        stat = fs.stat(path)
        if before is not None and before.stat == stat:
            return before
        return ReadCheckpoint(stat=stat, offsets=OffsetCheckpoint.read(fs, path))
    except FileMissingError:
        return ReadCheckpoint(stat=None, offsets={})
    except CheckpointError as error:
        return ReadCheckpoint(stat=stat, offsets={}, warning=f"{error}; taken as empty")
