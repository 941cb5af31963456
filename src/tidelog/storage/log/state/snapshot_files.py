"""The producer snapshot files of one partition directory, and the rules by which they are kept.

It owns the names of the ``.snapshot`` files; ``storage/producer`` owns their contents. A snapshot at offset N is the
state after all batches below N. A crash may leave a partial snapshot: its CRC fails, and the loader uses an older one.

Thread rule: the caller holds the partition's lock. Source: Kafka's ``ProducerStateManager``.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from pathlib import Path

from tidelog.storage.fs import FileSystem, read_whole, sync_whole
from tidelog.storage.segment.file_names import FileKind, segment_file


class SnapshotFiles:
    """The snapshots of a directory. ``offsets`` ascend."""

    def __init__(self, fs: FileSystem, directory: Path, offsets: Iterable[int]) -> None:
        self._fs = fs
        self._directory = directory
        self._unsynced: set[int] = set()
        self.offsets = sorted(offsets)

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def path(self, offset: int) -> Path:
        return segment_file(self._directory, offset, FileKind.SNAPSHOT)

    def moved_to(self, directory: Path) -> None:
        self._directory = directory

    def read(self, offset: int) -> bytes:
        return read_whole(self._fs, self.path(offset))

    def write(self, offset: int, data: bytes) -> None:
        """Write a snapshot without syncing it; see ``sync``."""
        with self._fs.open(self.path(offset), create=True) as file:
            file.truncate(0)
            file.pwrite(data, 0)
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

    def sync(self) -> None:
        """Sync the written snapshots. Others may be written during it; the next call syncs them."""
        unsynced = set(self._unsynced)
        for offset in sorted(unsynced):
            sync_whole(self._fs, self.path(offset))
        self._unsynced -= unsynced


def strays(snapshots: Iterable[int], base_offsets: Iterable[int]) -> list[int]:
    """Return the snapshots at no segment's base offset, except for the last one if it is above every base offset."""
    bases = sorted(base_offsets)
    found = [offset for offset in sorted(snapshots) if not bases or bases[bisect_right(bases, offset) - 1] != offset]
    if found and (not bases or found[-1] > bases[-1]):
        found.pop()
    return found
