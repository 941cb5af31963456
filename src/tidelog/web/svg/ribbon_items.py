"""The items of a log's picture: runs of segments, epochs, marks, transactions and snapshots.

``place`` and ``start`` count bytes from the start of the first segment, as if the segments were one file. ``item``
returns the values for the JSON. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from tidelog.web.page import Row


@dataclass(frozen=True, slots=True)
class StateStyle:
    """The look of a state. ``meaning`` stands in the legend."""

    letter: str
    fill: str
    pattern: str
    meaning: str


STYLES: Final[Mapping[str, StateStyle]] = {
    "active": StateStyle("A", "active", "plain", "active: appends go here"),
    "time": StateStyle("T", "time", "slash", "kept by time: retention.ms"),
    "size": StateStyle("S", "size", "dots", "kept by size: retention.bytes"),
    "time_and_size": StateStyle("B", "time", "grid", "kept by time and by size"),
    "unlimited": StateStyle("U", "forever", "plain", "kept: no limit is set"),
    "compaction": StateStyle("C", "clean", "waves", "kept by compaction: cleanup.policy"),
    "no_policy": StateStyle("P", "forever", "rows", "kept: cleanup.policy is empty"),
    "snapshot": StateStyle("K", "log-start", "columns", "kept by the oldest metadata snapshot"),
    "high_watermark": StateStyle("H", "watermark", "rows", "kept by the high watermark"),
    "future": StateStyle("F", "future", "crosses", "kept by a timestamp in the future"),
    "waits": StateStyle("W", "waits", "backslash", "waits for an earlier segment"),
    "deleted_by_time": StateStyle("DT", "deletes", "slash", "the next check deletes it by time"),
    "deleted_by_size": StateStyle("DS", "deletes", "dots", "the next check deletes it by size"),
    "deleted_by_log_start": StateStyle("DL", "deletes", "rows", "the next check deletes it: below the log start"),
    "lost": StateStyle("X", "soft", "crosses", "the next start removes it: behind invalid bytes"),
    "mixed": StateStyle("M", "soft", "grid", "segments of several states"),
    "unknown": StateStyle("?", "soft", "plain", "unknown: the segments cannot be read"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRun:
    """A segment, or neighbours of one state. ``bytes`` is the size of the ``.log`` files. Entries are None if an index
    file is missing. ``base_offset`` is the first segment's, and ``end_offset`` follows the last one."""

    state: str
    base_offset: int
    end_offset: int
    segments: int
    start: int
    bytes: int
    index_entries: int | None
    time_index_entries: int | None
    trigger: str | None
    goes_at_ms: int | None
    after_bytes: int | None
    tip: str = field(default="", compare=False)
    url: str | None = field(default=None, compare=False)

    def item(self) -> Row:
        return _item("segment", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTail:
    """The bytes of a segment that a start truncates. ``offset`` is the log end."""

    offset: int
    start: int
    bytes: int
    reason: str

    def item(self) -> Row:
        return _item("lost_tail", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBand:
    """A leader epoch, or neighbours: then ``epoch`` is the first one."""

    epoch: int
    epochs: int
    start_offset: int
    end_offset: int
    start: int
    bytes: int

    def item(self) -> Row:
        return _item("epoch", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTick:
    """A producer snapshot, or a snapshot of the cluster metadata; with ``snapshots`` more than 1, some neighbours."""

    of: str
    offset: int
    snapshots: int
    place: int

    def item(self) -> Row:
        return _item("snapshot", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBar:
    """An open transaction from its first offset to the log end; or the newest ones together. ``bytes`` counts the bytes
    that it blocks for read_committed consumers."""

    producer_id: int
    transactions: int
    start_offset: int
    end_offset: int
    start_timestamp: int | None
    start: int
    bytes: int
    tip: str = field(default="", compare=False)
    url: str | None = field(default=None, compare=False)

    def item(self) -> Row:
        return _item("transaction", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetMark:
    """An offset of the log with all its names, such as ``high watermark`` and ``log end``."""

    names: tuple[str, ...]
    offset: int
    place: int

    def item(self) -> Row:
        return {**_item("mark", self), "names": list(self.names)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ribbon:
    """The picture. ``index_interval_bytes`` is the distance of index entries that the settings ask for."""

    segments: Sequence[SegmentRun]
    tails: Sequence[LostTail]
    epochs: Sequence[EpochBand]
    snapshots: Sequence[SnapshotTick]
    transactions: Sequence[TransactionBar]
    marks: Sequence[OffsetMark]
    index_interval_bytes: int

    def items(self) -> list[Row]:
        """Return all items in the order of the drawing."""
        parts = (self.segments, self.tails, self.epochs, self.snapshots, self.transactions, self.marks)
        return [one.item() for part in parts for one in part]


def _item(kind: str, value: SegmentRun | LostTail | EpochBand | SnapshotTick | TransactionBar | OffsetMark) -> Row:
    names = [one.name for one in fields(value) if one.name not in ("tip", "url")]
    return {"kind": kind, **{name: getattr(value, name) for name in names}}
