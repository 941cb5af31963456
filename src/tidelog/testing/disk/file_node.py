"""A file of a simulated disk: the programs' view, the safe state, and the changes in between.

``cached`` is the page cache, and ``sync`` makes it ``synced``. Until then every change is kept, because a power loss
may leave any of them (``survivor``):

==================  ==============================================================================================
size                the size after any one of the changes: sizes change in sequence, like journalled metadata. A write
                    that extends the file may have reached any sector
a sector            its synced content, or its content after any one of the changes to it. Sectors are independent, so
                    writes are torn and reordered. An unwritten sector after the synced size is zeros
the file's end      bytes of a surviving sector that lie behind the size are zeros, as a later write would find them
a truncation        if the size shows it, the removed data does not come back. Otherwise all data stays, except for the
                    zeros in the sector that it split
time                the time after the change that the size shows
==================  ==============================================================================================

Thread rule: the caller holds the disk's lock.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from mmap import mmap

from tidelog.testing.disk.sector_map import SECTOR_BYTES, SectorMap
from tidelog.testing.disk.survival import Chooser


@dataclass(frozen=True, slots=True)
class FileChange:
    """A write of ``data`` at ``position``, or with None a resize. ``size`` is the size after the change."""

    size: int
    mtime_ms: int
    data: bytes | None = None
    position: int = 0


class FileNode:
    """An inode. ``links`` is the number of its names."""

    __slots__ = ("cached", "changes", "links", "mappings", "mtime_ms", "openings", "synced", "synced_mtime_ms")

    def __init__(self, mtime_ms: int, content: SectorMap | None = None) -> None:
        """``content`` is synced."""
        self.synced = content or SectorMap()
        self.cached = self.synced.copy()
        self.mtime_ms = self.synced_mtime_ms = mtime_ms
        self.changes: list[FileChange] = []
        self.mappings: list[weakref.ref[mmap]] = []
        self.openings = 0
        self.links = 1

    # --- changing ---

    def write(self, data: bytes, position: int, now_ms: int) -> None:
        self.cached.write(data, position)
        self._note(FileChange(self.cached.size, now_ms, data, position))
        for mapping in self._mapped():
            part = data[max(0, -position) : max(0, len(mapping) - position)]
            mapping[position : position + len(part)] = part

    def resize(self, size: int, now_ms: int) -> None:
        self.cached.resize(size)
        self._note(FileChange(size, now_ms))
        for mapping in self._mapped():
            if size < len(mapping):
                mapping[size:] = bytes(len(mapping) - size)

    def set_mtime(self, mtime_ms: int) -> None:
        self._note(FileChange(self.cached.size, mtime_ms))

    def sync(self) -> None:
        if self.changes:
            self.synced = self.cached.copy()
            self.changes = []
        self.synced_mtime_ms = self.mtime_ms

    def new_sectors(self, length: int, position: int) -> int:
        """Return the number of sectors that a write would add to the file."""
        first, behind = position // SECTOR_BYTES, -(-(position + length) // SECTOR_BYTES)
        return sum(not self.cached.is_allocated(number) for number in range(first, behind))

    def map(self, size: int) -> mmap:
        made = mmap(-1, size)
        for position, content in self.cached.runs():
            part = content[: max(0, size - position)]
            made[position : position + len(part)] = part
        self.mappings = [*(one for one in self.mappings if one() is not None), weakref.ref(made)]
        return made

    def _mapped(self) -> list[mmap]:
        return [mapping for one in self.mappings if (mapping := one()) is not None and not mapping.closed]

    def _note(self, change: FileChange) -> None:
        self.changes.append(change)
        self.mtime_ms = change.mtime_ms

    # --- after the power came back ---

    def survivor(self, chooser: Chooser) -> FileNode:
        """Return the file after a power loss, as ``chooser`` decides."""
        if not self.changes:
            return FileNode(self.synced_mtime_ms, self.synced.copy())
        chooser.begin()
        reached = chooser.pick(len(self.changes) + 1)
        size, mtime_ms = self.synced.size, self.synced_mtime_ms
        if reached:
            size, mtime_ms = self._size_after(reached, chooser), self.changes[reached - 1].mtime_ms
        base, versions = self._versions(reached)
        base.size = max(base.size, size)
        for number in sorted(versions):
            if number * SECTOR_BYTES < size:
                found = _states(base.sector(number), versions[number])
                base.put(number, found[chooser.pick(len(found))])
        base.size = -(-base.size // SECTOR_BYTES) * SECTOR_BYTES
        base.resize(size)
        return FileNode(mtime_ms, base)

    def _size_after(self, reached: int, chooser: Chooser) -> int:
        """Return the size after a change. A write that extended the file may have ended at any of its sectors."""
        size = self.changes[reached - 1].size
        before = self.changes[reached - 2].size if reached > 1 else self.synced.size
        if self.changes[reached - 1].data is None or size <= before:
            return size
        torn = range((before // SECTOR_BYTES + 1) * SECTOR_BYTES, size, SECTOR_BYTES)
        picked = chooser.pick(len(torn) + 1)
        return size if picked == len(torn) else torn[picked]

    def _versions(self, reached: int) -> tuple[SectorMap, dict[int, list[bytes]]]:
        """Return the file without its writes, and the contents of each sector after each of them, oldest first."""
        base, current = self.synced.copy(), self.synced.copy()
        versions: dict[int, list[bytes]] = {}
        size = self.synced.size
        for number, change in enumerate(self.changes, 1):
            before, size = size, change.size
            if change.data is not None:
                touched = current.write(change.data, change.position)
            else:
                touched = current.resize(change.size)
                if number <= reached:
                    base.size = max(base.size, before)  # a sector that an earlier truncation left here is removed, too
                    base.resize(min(base.size, size))
                    behind = -(-size // SECTOR_BYTES)
                    versions = {sector: found for sector, found in versions.items() if sector < behind}
                    for sector in touched:
                        base.put(sector, current.sector(sector))
                        versions.pop(sector, None)
                    continue
            for sector in touched:
                versions.setdefault(sector, []).append(current.sector(sector))
        return base, versions


def _states(oldest: bytes, later: list[bytes]) -> list[bytes]:
    """Return the possible contents of a sector without repetitions, the oldest first and the newest last."""
    newest = later[-1]
    between = [content for content in dict.fromkeys(later[:-1]) if content not in (oldest, newest)]
    return [oldest, *between, newest] if between or oldest != newest else [oldest]
