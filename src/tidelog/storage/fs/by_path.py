"""The file system for a path: object storage for a URL, else this machine's disk.

Use it for paths given by users, which may mix both kinds. It owns nothing. Thread rule: any thread, as in the
FileSystem protocol.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.storage.fs.interface import File, FileStat, FileSystem, Lock
from tidelog.storage.fs.local import LOCAL
from tidelog.storage.fs.objects import ObjectFileSystem, UrlPath

_OBJECTS = ObjectFileSystem()


def _of(path: Path) -> FileSystem:
    return _OBJECTS if isinstance(path, UrlPath) else LOCAL


class FileSystemByPath:
    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        return _of(path).open(path, write=write, create=create)

    def list_names(self, directory: Path) -> list[str]:
        return _of(directory).list_names(directory)

    def list_directories(self, directory: Path) -> list[str]:
        return _of(directory).list_directories(directory)

    def list_sizes(self, directory: Path) -> dict[str, int]:
        return _of(directory).list_sizes(directory)

    def stat(self, path: Path) -> FileStat:
        return _of(path).stat(path)

    def exists(self, path: Path) -> bool:
        return _of(path).exists(path)

    def rename(self, source: Path, target: Path) -> None:
        _of(source).rename(source, target)

    def link(self, source: Path, target: Path) -> bool:
        return _of(source) is _of(target) and _of(source).link(source, target)

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        _of(path).set_mtime(path, mtime_ms)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        _of(path).remove(path, missing_ok=missing_ok)

    def make_dir(self, path: Path) -> None:
        _of(path).make_dir(path)

    def remove_dir(self, path: Path) -> None:
        _of(path).remove_dir(path)

    def sync_dir(self, path: Path) -> None:
        _of(path).sync_dir(path)

    def lock(self, path: Path) -> Lock:
        return _of(path).lock(path)

    def lock_holder(self, path: Path) -> int | None:
        return _of(path).lock_holder(path)


BY_PATH = FileSystemByPath()
