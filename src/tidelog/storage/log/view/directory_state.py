"""The lock, marker and checkpoint files of a log directory, read once, as one frozen value.

Two facts decide between three conditions: who holds ``.lock``, and whether the clean-shutdown marker exists.

=========  ==========================================  =====================================================
condition  detected by                                 a reader trusts
=========  ==========================================  =====================================================
HELD       a process holds ``.lock``                   every complete batch; records up to the checkpointed HW
CLEAN      no process holds it, the marker exists      every file
UNCLEAN    no process holds it, no marker              segments below the recovery point; after it, batches
                                                       with valid CRCs, as recovery would keep them
=========  ==========================================  =====================================================

An unreadable recovery-point or log-start checkpoint counts as empty, as in Kafka, and causes a warning. Only the owner
gets an error if the disk does not return a checkpoint: its disk has failed. Reading changes nothing and takes no lock:
``lock_holder`` finds the holder of a record lock without locking.
Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.model import CheckpointError, FileMissingError, StorageError, TopicPartition
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileStat, FileSystem

LOCK_FILE = ".lock"


class DirectoryCondition(enum.StrEnum):
    """The state in which the last owner left a log directory, or that it is in use."""

    HELD = "held"
    CLEAN = "clean"
    UNCLEAN = "killed"  # the word that commands print


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryState:
    """A log directory's condition and checkpoints. A partition that a checkpoint lacks is missing from its mapping."""

    path: Path
    condition: DirectoryCondition
    holder: int | None = None
    """Process id of the lock's holder."""
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    checkpoints: Mapping[str, ReadCheckpoint] = field(default_factory=dict, repr=False)
    """The files as read, by name, for the next reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCheckpoint:
    """A checkpoint file as read. It is always replaced as a file, so equal size and time mean equal contents."""

    stat: FileStat | None
    offsets: Mapping[TopicPartition, int]
    warning: str | None = None


def read_directory_state(
    fs: FileSystem, path: Path, previous: DirectoryState | None = None, *, held_here: bool = False
) -> DirectoryState:
    """Read lock, marker and checkpoints of a log directory. Any of them may be missing.

    A checkpoint unchanged since ``previous`` is not read again: with thousands of partitions a read takes milliseconds,
    and a reader that follows a log polls ten times a second. ``held_here``: the caller holds the lock, so the condition
    is the one in which the last owner left the directory.
    """
    holder = None if held_here else fs.lock_holder(path / LOCK_FILE)
    if holder is not None:
        condition = DirectoryCondition.HELD
    else:
        condition = DirectoryCondition.CLEAN if CleanShutdownFile(fs, path).exists() else DirectoryCondition.UNCLEAN
    before = {} if previous is None else previous.checkpoints
    names = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    tolerated = CheckpointError if held_here else StorageError
    checkpoints = {name: _read_checkpoint(fs, path / name, before.get(name), tolerated) for name in names}
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


def _read_checkpoint(
    fs: FileSystem, path: Path, before: ReadCheckpoint | None, tolerated: type[StorageError]
) -> ReadCheckpoint:
    stat = None
    try:
        stat = fs.stat(path)
        if before is not None and before.stat == stat:
            return before
        return ReadCheckpoint(stat=stat, offsets=OffsetCheckpoint.read(fs, path))
    except FileMissingError:
        return ReadCheckpoint(stat=None, offsets={})
    except tolerated as error:
        return ReadCheckpoint(stat=stat, offsets={}, warning=f"{error}; treated as empty")
