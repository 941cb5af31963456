"""The producer state of one log together with its snapshot files: loading, saving and rebuilding.

It owns a ``ProducerState`` (in memory, ``storage/producer``) and the ``SnapshotFiles`` it is loaded from and saved to.
A snapshot is written only if the state has advanced past the last one, so none is overwritten. An unreadable snapshot
is removed and an older one is used; without any, the state begins empty at the log start. Idle producers expire when a
snapshot is loaded, never while batches are scanned.

A snapshot at offset N is the state after all batches below N; ``storage/producer`` owns its contents. A crash loses the
memory, and may leave a partial snapshot: its CRC fails, and loading uses an older one.
Thread rule: the caller holds the partition's lock.
Source: Kafka's ``ProducerStateManager`` and ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import SnapshotCorruptError
from tidelog.storage.fs import FileSystem, read_whole, sync_whole, write_whole
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.state.log_segments import LogSegments, S
from tidelog.storage.producer import EndedTransaction, ProducerState
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SnapshotFiles:
    """The snapshots of a directory. ``offsets`` ascend."""

    def __init__(self, fs: FileSystem, directory: Path, offsets: Iterable[int]) -> None:
        self._fs = fs
        self._directory = directory
        self._unsynced: set[int] = set()
        self.offsets = sorted(offsets)
        self.contents: dict[str, bytes] | None = None
        """Files that were read or written already, by name. The loader sets it while it works."""

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def path(self, offset: int) -> Path:
        return segment_file(self._directory, offset, FileKind.SNAPSHOT)

    def moved_to(self, directory: Path) -> None:
        self._directory = directory

    def read(self, offset: int) -> bytes:
        path = self.path(offset)
        content = None if self.contents is None else self.contents.get(path.name)
        return read_whole(self._fs, path) if content is None else content

    def write(self, offset: int, data: bytes) -> None:
        """Write a snapshot without syncing it; see ``sync``."""
        path = self.path(offset)
        write_whole(self._fs, path, data)
        if self.contents is not None:
            self.contents[path.name] = data
        self._unsynced.add(offset)
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def remove(self, offset: int) -> None:
        self._fs.remove(self.path(offset), missing_ok=True)
        self._unsynced.discard(offset)
        if offset in self.offsets:
            self.offsets.remove(offset)

    def forget(self, offset: int) -> Path:
        """Drop a snapshot from the list and return its path. The caller removes the file."""
        self._unsynced.discard(offset)
        if offset in self.offsets:
            self.offsets.remove(offset)
        return self.path(offset)

    def remove_outside(self, log_start_offset: int, log_end_offset: int) -> None:
        """Keep the snapshots in (log start, log end]."""
        for offset in list(self.offsets):
            if offset > log_end_offset or offset <= log_start_offset:
                self.remove(offset)

    def remove_above(self, offset: int) -> None:
        for above in [one for one in self.offsets if one > offset]:
            self.remove(above)

    def remove_all(self) -> None:
        for offset in list(self.offsets):
            self.remove(offset)

    def remove_strays(self, base_offsets: Iterable[int]) -> None:
        """Keep the snapshots at base offsets of segments, and a clean shutdown's above all of them."""
        for offset in strays(self.offsets, base_offsets):
            self.remove(offset)

    @property
    def has_unsynced(self) -> bool:
        return bool(self._unsynced)

    def sync(self) -> None:
        """Sync the written snapshots. Others may be written during it; the next call syncs them."""
        unsynced = set(self._unsynced)
        for offset in sorted(unsynced):
            sync_whole(self._fs, self.path(offset))
        self._unsynced -= unsynced


class LogProducerState:
    """A log's producers and their snapshots. Its owner may use ``state``, except for calls that touch files."""

    def __init__(self, fs: FileSystem, directory: Path, snapshots: SnapshotFiles, *, expiration_ms: int) -> None:
        self._fs = fs
        self._directory = directory
        self.snapshots = snapshots
        self.state = ProducerState(expiration_ms=expiration_ms)

    def moved_to(self, directory: Path) -> None:
        """Take over the new path of the log's directory, which was renamed."""
        self._directory = directory
        self.snapshots.moved_to(directory)

    def apply(self, buffer: Buffer, table: BatchTable) -> list[AbortedTxn]:
        """Apply the log's next batches and return aborted transactions. The first batch begins at ``buffer[0]``."""
        if table.summary.producer_id < 0:
            self.state.map_end_offset = table.summary.last_offset + 1
            return []
        return self.replay(buffer, table)

    def replay(self, buffer: Buffer, table: BatchTable) -> list[AbortedTxn]:
        """Apply batches like ``apply``. At least one must have a producer id."""
        ended = self.state.replay(buffer, table, base_position=int(table.position[0]))
        return [aborted_entry(end) for end in ended if end.transaction.aborted]

    def take_snapshot(self) -> int | None:
        """Write a snapshot if the state has advanced since the last one. Return its offset, or None. Not synced."""
        if not self.state.needs_snapshot:
            return None
        offset = self.state.map_end_offset
        self.snapshots.write(offset, self.state.snapshot())
        self.state.snapshot_taken()
        return offset

    def rebuild(
        self,
        segments: LogSegments[S],
        log_start_offset: int,
        end_offset: int,
        *,
        after_clean_shutdown: bool,
        now_ms: int,
    ) -> None:
        """Bring the state to ``end_offset``, from the newest usable snapshot and the batches after it.

        Write snapshots at the base offsets of the last two segments and at the end, where a truncation will need them
        soon. After a clean shutdown without any snapshot (a log of old brokers), read no batches.
        """
        wanted = _snapshot_offsets(segments, end_offset)
        if after_clean_shutdown and self.snapshots.latest is None:
            for offset in wanted:
                self.state.map_end_offset = offset
                self.take_snapshot()
            return
        nothing_before = self.state.is_empty and self.state.map_end_offset >= end_offset
        self._truncate_and_reload(log_start_offset, end_offset, now_ms)
        if end_offset > self.state.map_end_offset and not nothing_before:
            for segment in segments.between(self.state.map_end_offset, end_offset):
                start = max(segment.base_offset, self.state.map_end_offset, log_start_offset)
                self.state.map_end_offset = start
                if segment.base_offset in wanted:
                    self.take_snapshot()
                with self.state.loading():
                    self._replay_segment(segment.base_offset, start, end_offset)
                self.state.map_end_offset = start
        self.state.map_end_offset = end_offset
        self.take_snapshot()

    def _truncate_and_reload(self, log_start_offset: int, end_offset: int, now_ms: int) -> None:
        self.snapshots.remove_outside(log_start_offset, end_offset)
        if end_offset == self.state.map_end_offset:
            self.state.on_log_start_offset_incremented(log_start_offset, self.snapshots.latest)
            return
        self.state.clear()
        while (offset := self.snapshots.latest) is not None:
            try:
                self.state.load_snapshot(self.snapshots.read(offset), offset, now_ms=now_ms)
                return
            except SnapshotCorruptError:
                self.snapshots.remove(offset)
        self.state.start_at(log_start_offset, last_snapshot_offset=log_start_offset)

    def _replay_segment(self, base_offset: int, start_offset: int, end_offset: int) -> None:
        with SegmentReader(self._fs, self._directory, base_offset) as reader:
            for buffer, table, _ in reader.chunks(reader.position_of(start_offset), verify_crc=False):
                if not len(table):
                    continue
                first = int(table.position[0])
                inside = (table.last_offset >= start_offset) & (table.last_offset < end_offset)
                rows = inside & (table.producer_id >= 0)
                if rows.any():
                    taken = table if rows.all() else table.take(np.flatnonzero(rows))
                    self.state.replay(buffer, taken, base_position=first)
                if int(table.last_offset[-1]) >= end_offset:
                    return


def strays(snapshots: Iterable[int], base_offsets: Iterable[int]) -> list[int]:
    """Return the snapshots at no segment's base offset, except for the last one if it is above every base offset."""
    bases = sorted(base_offsets)
    found = [offset for offset in sorted(snapshots) if not bases or bases[bisect_right(bases, offset) - 1] != offset]
    if found and (not bases or found[-1] > bases[-1]):
        found.pop()
    return found


def aborted_entry(end: EndedTransaction) -> AbortedTxn:
    """Return the transaction index entry of an aborted transaction."""
    transaction = end.transaction
    return AbortedTxn(
        transaction.producer_id, transaction.first_offset, transaction.last_offset, end.last_stable_offset
    )


def _snapshot_offsets(segments: LogSegments[S], end_offset: int) -> list[int]:
    wanted = []
    if len(segments):
        last = segments.last.base_offset
        before = segments.lower(last)
        wanted = [last] if before is None else [before.base_offset, last]
    return [*wanted, end_offset]
