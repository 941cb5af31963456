"""The records of a metadata timeline, joined to runs for a picture: neighbours of one kind in one piece of the axis.

Pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_ID
from tidelog.web.page import Row
from tidelog.web.reports.metadata_timeline import KINDS, MetadataTimeline, QuorumEpoch, SnapshotFile

T = TypeVar("T")
_MOST_RUNS: Final = 240
_MOST_PIECES: Final = 128
_MOST_MARKS: Final = 20
NO_CHANGE: Final = "no change"
_REMOVALS: Final = ("Remove", "Unregister")

Ints = npt.NDArray[np.int64]


def timeline_runs(timeline: MetadataTimeline, rows: Ints, *, by_time: bool) -> list[Row]:
    """Return at most about 240 runs, sorted by kind and then along the axis."""
    if not len(rows):
        return []
    place = (timeline.time_ms if by_time else timeline.offset)[rows]
    low, span = int(place.min()), int(np.ptp(place)) + 1
    kinds = timeline.kind_numbers()[rows]
    pieces = _MOST_PIECES
    while True:
        piece = kinds.astype(np.int64) * _MOST_PIECES + (place - low) * pieces // span
        if pieces == 1 or len(np.unique(piece)) <= _MOST_RUNS:
            return list(_runs(timeline, rows, piece))
        pieces //= 2


def _runs(timeline: MetadataTimeline, rows: Ints, piece: Ints) -> Iterator[Row]:
    order = np.argsort(piece, kind="stable")
    rows, piece = rows[order], piece[order]
    starts = np.flatnonzero(np.concatenate([[True], piece[1:] != piece[:-1]]))
    offsets, times = timeline.offset[rows], timeline.time_ms[rows]
    is_removal = np.array([name.startswith(_REMOVALS) for name in timeline.types], np.bool_)
    removals = is_removal[timeline.type_number[rows]].astype(np.int64)
    names = [*KINDS, NO_CHANGE]
    columns = [
        piece[starts] // _MOST_PIECES,
        np.diff(starts, append=len(rows)),
        np.add.reduceat(removals, starts),
        np.minimum.reduceat(offsets, starts),
        np.maximum.reduceat(offsets, starts),
        np.minimum.reduceat(times, starts),
        np.maximum.reduceat(times, starts),
    ]
    for kind, records, removed, first, last, start, end in zip(*(column.tolist() for column in columns), strict=True):
        yield {
            "kind": names[kind],
            "records": records,
            "removals": removed,
            "first_offset": first,
            "last_offset": last,
            "start_ms": start,
            "end_ms": end,
        }


def timeline_marks(timeline: MetadataTimeline, start: int | None, end: int | None) -> list[Row]:
    """Return the epochs of the quorum and the snapshots in a range of offsets, at most 20 of each. Neighbours are
    joined beyond that."""
    low, high = 0 if start is None else start, 2**63 if end is None else end
    epochs = [one for one in timeline.epochs if low <= one.first_offset < high]
    snapshots = [one for one in timeline.snapshots if low <= one.id.offset <= high]
    return [
        *(_epoch_mark(group) for group in _groups(epochs)),
        *(_snapshot_mark(timeline, group) for group in _groups(snapshots)),
    ]


def _groups(items: Sequence[T]) -> Iterator[Sequence[T]]:
    size = max(1, -(-len(items) // _MOST_MARKS))
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _epoch_mark(group: Sequence[QuorumEpoch]) -> Row:
    first, last = group[0], group[-1]
    leader = "" if last.leader is None else f": node {last.leader}"
    label = f"epoch {first.epoch}{leader}" if len(group) == 1 else f"epochs {first.epoch} to {last.epoch}"
    return {
        "mark": "epoch",
        "label": label,
        "epoch": first.epoch,
        "epochs": len(group),
        "leader": last.leader,
        "offset": first.first_offset,
        "time_ms": first.time_ms,
    }


def _snapshot_mark(timeline: MetadataTimeline, group: Sequence[SnapshotFile]) -> Row:
    last = group[-1]
    is_bootstrap = last.id == BOOTSTRAP_ID
    label = f"snapshot {last.id.offset:,}" if len(group) == 1 else f"{len(group):,} snapshots"
    return {
        "mark": "snapshot",
        "label": "bootstrap snapshot" if is_bootstrap and len(group) == 1 else label,
        "snapshots": len(group),
        "bytes": sum(one.bytes for one in group),
        "offset": last.id.offset,
        "time_ms": snapshot_time(timeline, last),
    }


def snapshot_time(timeline: MetadataTimeline, snapshot: SnapshotFile) -> int:
    """Return the time of the last record below a snapshot's end, or of the first record of the log; -1 without any."""
    if not len(timeline):
        return -1
    row = int(np.searchsorted(timeline.offset, snapshot.id.offset)) - 1
    return int(timeline.time_ms[max(0, row)])
