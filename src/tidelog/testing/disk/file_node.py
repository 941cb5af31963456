"""A file as the disk has it: what programs see, what is safe, and the changes in between.

``cached`` is the page cache. ``sync`` makes it ``synced``; until then every change is remembered, for a loss of power
may leave any of them (``survivor``):

==================  ==============================================================================================
size                as after any one of the changes: sizes change in order, as journalled metadata does. Of a write
                    that makes the file longer it may have come to any sector
a sector            what was synced, or what it held after any one of the changes that touched it; each sector by
                    itself, so writes are torn and reordered. One behind the synced size, not written yet, is zeros
a cut               that the size shows has taken what it cut: it does not come back. One that the size does not show
                    has left all as it was, but for the zeros in the sector that it cut in two
time                as after the change that the size shows
==================  ==============================================================================================

Called by: the simulated disk. Thread rule: the disk's lock is held.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from mmap import mmap

from tidelog.testing.disk.sector_map import SECTOR_BYTES, SectorMap
from tidelog.testing.disk.survival import Chooser


@dataclass(frozen=True, slots=True)
class FileChange:
    """``data`` written at ``position``, or with neither the file resized to ``size``; ``size`` is what it had then."""

    size: int
    mtime_ms: int
    data: bytes | None = None
    position: int = 0


class FileNode:
    """An inode. ``links``: how many names it has, 0 or 1."""

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
        """How many sectors a write would take that the file has not."""
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
        """The file as ``chooser`` finds it."""
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
        base.resize(size)
        return FileNode(mtime_ms, base)

    def _size_after(self, reached: int, chooser: Chooser) -> int:
        """Of a file that grew by the last change, any sector of it, or its end."""
        size = self.changes[reached - 1].size
        before = self.changes[reached - 2].size if reached > 1 else self.synced.size
        if self.changes[reached - 1].data is None or size <= before:
            return size
        torn = range((before // SECTOR_BYTES + 1) * SECTOR_BYTES, size, SECTOR_BYTES)
        picked = chooser.pick(len(torn) + 1)
        return size if picked == len(torn) else torn[picked]

    def _versions(self, reached: int) -> tuple[SectorMap, dict[int, list[bytes]]]:
        """The file without the changes of its sectors, and what each sector held after each of them, in order."""
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
                    base.size = max(base.size, before)  # a sector that an earlier cut left here is cut as well
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
    """What a sector can be found to hold, the oldest first and the newest last, each only once in between."""
    newest = later[-1]
    between = [content for content in dict.fromkeys(later[:-1]) if content not in (oldest, newest)]
    return [oldest, *between, newest] if between or oldest != newest else [oldest]
