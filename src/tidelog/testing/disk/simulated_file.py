"""An open file of a simulated disk, with the File protocol.

Like a descriptor, it stays open if its name is removed or changed. Thread rule: see the File protocol.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from mmap import mmap
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidelog.model import ClosedError, StorageError
from tidelog.testing.disk.disk_gate import DiskGate, os_error
from tidelog.testing.disk.file_node import FileNode
from tidelog.testing.disk.sector_map import SECTOR_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SimulatedFile:
    __slots__ = ("_gate", "_is_writable", "_node", "_path")

    has_descriptor = False

    def __init__(self, gate: DiskGate, path: Path, node: FileNode, *, is_writable: bool) -> None:
        self._gate = gate
        self._path = path
        self._node: FileNode | None = node
        self._is_writable = is_writable
        node.openings += 1

    @property
    def path(self) -> Path:
        return self._path

    @property
    def size(self) -> int:
        node = self._opened()
        with self._gate.call("size", self._path, "stat"):
            return node.cached.size

    def pread(self, length: int, position: int) -> bytes:
        node = self._opened()
        with self._gate.call("pread", self._path, "read"):
            if position < 0:
                raise os_error(errno.EINVAL)
            return node.cached.read(length, position)

    def pread_into(self, buffer: Buffer, position: int) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self.pread(len(view), position)
            view[: len(data)] = data
            return len(data)

    def pwrite_all(self, parts: Sequence[memoryview], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def pwrite(self, data: Buffer, position: int) -> int:
        """Write ``data``. If the disk runs full, write the part that fits and then fail."""
        content = bytes(data)
        node = self._opened()
        with self._gate.call("pwrite", self._path, "write", changes=bool(content)):
            self._require_writable(errno.EBADF)
            if position < 0:
                raise os_error(errno.EINVAL)
            if not content:
                return 0
            wanted = node.new_sectors(len(content), position)
            taken = self._gate.take(wanted)
            if taken == wanted:
                node.write(content, position, self._gate.clock.now_ms())
                return len(content)
            fitting = _fitting(node, content, position, taken)
            if fitting:
                node.write(fitting, position, self._gate.clock.now_ms())
            raise os_error(errno.ENOSPC)

    def truncate(self, size: int) -> None:
        self._resize("truncate", size, f"truncate to {size} bytes")

    def allocate(self, size: int) -> None:
        if self.size < size:
            self._resize("allocate", size, f"allocate {size} bytes")

    def sync(self) -> None:
        node = self._opened()
        with self._gate.call("sync", self._path, "sync"):
            node.sync()

    def map(self, size: int) -> mmap:
        """Return a copy of the bytes, which later writes of this disk update."""
        if size <= 0:
            raise ValueError(f"a mapping of {size} bytes: the operating system refuses empty ones")
        node = self._opened()
        with self._gate.call("map", self._path, "map"):
            if size > node.cached.size:
                raise StorageError(f"cannot map {size} bytes of a file of {node.cached.size}", path=self._path)
            return node.map(size)

    def fileno(self) -> int:
        self._opened()
        raise StorageError("a file in memory has no descriptor", path=self._path)

    def close(self) -> None:
        """Close the file. This is not a call of the disk, so it works without power."""
        node, self._node = self._node, None
        if node is not None:
            with self._gate.lock:
                node.openings -= 1
                if not node.openings and not node.links:
                    self._gate.give_back(node.cached.allocated)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resize(self, name: str, size: int, action: str) -> None:
        node = self._opened()
        with self._gate.call(name, self._path, action):
            self._require_writable(errno.EINVAL)
            if size < 0:
                raise os_error(errno.EINVAL)
            before = node.cached.allocated
            node.resize(size, self._gate.clock.now_ms())
            self._gate.give_back(before - node.cached.allocated)

    def _require_writable(self, number: int) -> None:
        if not self._is_writable:
            raise os_error(number)

    def _opened(self) -> FileNode:
        if self._node is None:
            raise ClosedError("the file is closed", path=self._path)
        return self._node


def _fitting(node: FileNode, content: bytes, position: int, sectors: int) -> bytes:
    """Return the part of ``content`` that ``sectors`` new sectors can hold."""
    end, first = position, position // SECTOR_BYTES
    for number in range(first, -(-(position + len(content)) // SECTOR_BYTES)):
        if not node.cached.is_allocated(number):
            if not sectors:
                break
            sectors -= 1
        end = (number + 1) * SECTOR_BYTES
    return content[: max(0, end - position)]
