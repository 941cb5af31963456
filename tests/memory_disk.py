"""A read-only log directory in memory with one file's bytes replaced. Tests try thousands of damages a minute.

Zeros after the entries of preallocated index files are shortened to 4,800 bytes. That is enough to distinguish the
file from an index without preallocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.model import DirectoryError, FileMissingError, ReadOnlyError
from tidelog.storage.fs import FileStat

_ENTRY_BYTES = 24
"""A multiple of the entry sizes of both preallocated kinds."""
_KEPT_ZEROS = 200 * _ENTRY_BYTES


class MemoryDisk:
    """A FileSystem over ``files`` (path -> bytes). ``with_file`` returns a disk that shares all files but one."""

    def __init__(
        self,
        files: Mapping[Path, bytes],
        names: Mapping[Path, list[str]],
        replaced: tuple[Path, bytes] | None = None,
    ) -> None:
        self._files = files
        self._names = names
        self._replaced = replaced

    @classmethod
    def load(cls, root: Path) -> MemoryDisk:
        paths = sorted(root.rglob("*"))
        names: dict[Path, list[str]] = {path: [] for path in (root, *paths) if path.is_dir()}
        for path in paths:
            names[path.parent].append(path.name)
        return cls({path: _shortened(path.read_bytes()) for path in paths if path.is_file()}, names)

    def with_file(self, path: Path, data: bytes) -> MemoryDisk:
        assert path in self._files
        return MemoryDisk(self._files, self._names, (path, data))

    @property
    def paths(self) -> list[Path]:
        return list(self._files)

    def data(self, path: Path) -> bytes:
        if self._replaced is not None and self._replaced[0] == path:
            return self._replaced[1]
        if path not in self._files:
            raise FileMissingError("no such file", path=path)
        return self._files[path]

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> MemoryFile:
        if write or create:
            raise ReadOnlyError("opened for reading only", path=path)
        return MemoryFile(path, self.data(path))

    def list_names(self, directory: Path) -> list[str]:
        if directory not in self._names:
            raise DirectoryError("cannot be listed", path=directory)
        return self._names[directory]

    def list_directories(self, directory: Path) -> list[str]:
        return [name for name in self.list_names(directory) if directory / name in self._names]

    def list_sizes(self, directory: Path) -> dict[str, int]:
        return {
            name: -1 if directory / name in self._names else len(self.data(directory / name))
            for name in self.list_names(directory)
        }

    def stat(self, path: Path) -> FileStat:
        if path in self._names:
            return FileStat(size=0, mtime_ms=0, is_dir=True)
        return FileStat(size=len(self.data(path)), mtime_ms=0, is_dir=False)

    def exists(self, path: Path) -> bool:
        return path in self._files or path in self._names

    def lock_holder(self, path: Path) -> int | None:
        return None

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"reading called {name}")


class MemoryFile:
    has_descriptor = False

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self._data = data
        self.size = len(data)

    def pread(self, length: int, position: int) -> bytes:
        return self._data[position : position + length]

    def pread_into(self, buffer: memoryview, position: int) -> int:
        part = self._data[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        pass

    def __enter__(self) -> MemoryFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _shortened(data: bytes) -> bytes:
    used = len(data.rstrip(b"\0"))
    return data if len(data) - used <= _KEPT_ZEROS else data[: used + _ENTRY_BYTES - used % _ENTRY_BYTES + _KEPT_ZEROS]
