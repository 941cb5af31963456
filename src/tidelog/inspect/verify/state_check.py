"""The check of leader epochs and checkpointed offsets against the log. The functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.kernel import BatchTable
from tidelog.storage.epoch import EpochEntry


def check_epochs(entries: Sequence[EpochEntry], path: Path, table: BatchTable, *, log_start: int) -> Iterator[Finding]:
    """Compare the epochs of one segment's batches at or above the log start with the checkpoint's entries.

    DeleteRecords moves the first entry up at once, but the log start checkpoint follows within a minute. After a crash
    in between, a broker begins at the old log start with the moved entry: that is only a note.
    """
    rows = np.flatnonzero((table.magic == 2) & (table.leader_epoch >= 0) & (table.base_offset >= log_start))
    starts = np.array([entry.start_offset for entry in entries], np.int64)
    epochs = np.array([entry.epoch for entry in entries], np.int64)
    at = np.searchsorted(starts, table.base_offset[rows], side="right") - 1
    before = rows[at < 0]
    if len(before):
        row = table.row(int(before[0]))
        was_moved = bool((table.leader_epoch[before] <= epochs[0]).all())
        yield Finding(
            path=path,
            message=f"the epochs begin at offset {starts[0]}, but epoch {row.leader_epoch} is in the log before it",
            severity=Severity.NOTE if was_moved else Severity.ERROR,
            offset=row.base_offset,
        )
    wrong = rows[(at >= 0) & (epochs[np.maximum(at, 0)] != table.leader_epoch[rows])]
    if len(wrong):
        row = table.row(int(wrong[0]))
        line = entries[int(np.searchsorted(starts, row.base_offset, side="right")) - 1]
        yield Finding(
            path=path,
            message=(
                f"epoch {line.epoch} holds from offset {line.start_offset} on, but {len(wrong)} batches have another,"
                f" the first {row.leader_epoch}"
            ),
            offset=row.base_offset,
        )


def check_offset_in_log(offset: int, path: Path, name: str, *, log_start: int, log_end: int) -> Iterator[Finding]:
    """Check that a checkpointed offset lies in the log. Above the log end it is wrong, below the log start only
    outdated."""
    if offset > log_end:
        yield Finding(path=path, message=f"{name}: {offset} lies above the log's end {log_end}", offset=offset)
    elif offset < log_start:
        message = f"{name}: {offset} lies below the log's start {log_start}"
        yield Finding(path=path, message=message, severity=Severity.NOTE, offset=offset)
