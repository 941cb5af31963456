"""The bytes of a file in sectors of 512. An unwritten sector is zeros and takes no space.

A disk writes a sector completely or not at all. Contents are immutable ``bytes``, so copies share them. Thread rule:
the caller holds the disk's lock.
"""

from __future__ import annotations

from collections.abc import Iterator

SECTOR_BYTES = 512
_ZEROS = bytes(SECTOR_BYTES)


class SectorMap:
    __slots__ = ("_sectors", "size")

    def __init__(self, sectors: dict[int, bytes] | None = None, size: int = 0) -> None:
        self._sectors = {} if sectors is None else sectors
        self.size = size

    @classmethod
    def of(cls, data: bytes) -> SectorMap:
        """Return a map of ``data`` in which sectors of zeros take no space."""
        made = cls()
        made.write(data, 0)
        for number in [number for number, content in made._sectors.items() if content == _ZEROS]:
            del made._sectors[number]
        return made

    @property
    def allocated(self) -> int:
        """The number of sectors that take space on the disk."""
        return len(self._sectors)

    def copy(self) -> SectorMap:
        return SectorMap(dict(self._sectors), self.size)

    def sector(self, number: int) -> bytes:
        return self._sectors.get(number, _ZEROS)

    def is_allocated(self, number: int) -> bool:
        return number in self._sectors

    def put(self, number: int, content: bytes) -> None:
        """Replace a sector. The size stays."""
        self._sectors[number] = content

    def read(self, length: int, position: int) -> bytes:
        """Return the bytes at ``position``, fewer than ``length`` only at the end of the file."""
        end = min(position + length, self.size)
        if position >= end:
            return b""
        first, last = position // SECTOR_BYTES, (end - 1) // SECTOR_BYTES
        get = self._sectors.get
        whole = b"".join([get(number, _ZEROS) for number in range(first, last + 1)])
        return whole[position - first * SECTOR_BYTES : end - first * SECTOR_BYTES]

    def write(self, data: bytes, position: int) -> range:
        """Write ``data`` and return the numbers of its sectors."""
        end = position + len(data)
        first, behind = position // SECTOR_BYTES, -(-end // SECTOR_BYTES)
        head = self.sector(first)[: position - first * SECTOR_BYTES]
        tail = self.sector(behind - 1)[end - (behind - 1) * SECTOR_BYTES :]
        whole = b"".join((head, data, tail))
        for number in range(first, behind):
            at = (number - first) * SECTOR_BYTES
            self._sectors[number] = whole[at : at + SECTOR_BYTES]
        self.size = max(self.size, end)
        return range(first, behind)

    def resize(self, size: int) -> range:
        """Truncate, or extend with zeros. Return the number of the sector that was split, if any."""
        cut = range(0)
        if size < self.size:
            behind = -(-size // SECTOR_BYTES)
            for number in [number for number in self._sectors if number >= behind]:
                del self._sectors[number]
            if size % SECTOR_BYTES and behind - 1 in self._sectors:
                kept = self._sectors[behind - 1][: size % SECTOR_BYTES]
                self._sectors[behind - 1] = kept + _ZEROS[len(kept) :]
                cut = range(behind - 1, behind)
        self.size = size
        return cut

    def runs(self) -> Iterator[tuple[int, bytes]]:
        """Yield (position, content) of each sector that takes space, ascending. The last content ends at the size."""
        for number, content in sorted(self._sectors.items()):
            position = number * SECTOR_BYTES
            yield position, content[: self.size - position]
