"""A read-only file system over every object store that fsspec knows (S3, GCS, Azure, HDFS, HTTP).

A store has no locks, so no process holds a directory in it. If the clean shutdown marker was copied too, the directory
counts as clean. Otherwise it counts as an unclean shutdown, and a reader trusts only data that a CRC proves.
Directories are key prefixes. An object is only ever replaced as a whole, so its size is fixed at opening. Reads request
byte ranges, and every listing is requested again. Every writing call raises ReadOnlyError.

Stores are configured as for fsspec: by environment variables and the files of fsspec or the store's own library. That
library is imported at the first read of its protocol. Thread rule: any thread, as in the FileSystem protocol. fsspec
creates its stores once per thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, Self

from tidelog.model import ClosedError, ConfigError, FileMissingError, StorageError, TidelogError
from tidelog.storage.fs.interface import FileStat
from tidelog.storage.fs.read_file import RefusedCalls
from tidelog.storage.fs.read_only import RefusingWrites, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer


_MARK = "://"
_REASON = "tidelog reads object storage, and does not write there"
_NO_FILE = -1
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
"""The stores' names for the time at which an object was written. The value is seconds, a datetime or its text."""


class UrlPath(PosixPath):
    """A URL such as ``s3://bucket/backup`` as a Path, whose text keeps both slashes. Readers accept it as a Path.

    It is always absolute and means nothing to the operating system. A URL differs from a path by ``://``, as in fsspec.
    """

    def __str__(self) -> str:
        head, _, rest = super().__str__().partition("/")
        return f"{head}//{rest}" if head.endswith(":") else super().__str__()

    def absolute(self) -> Self:
        return self

    def resolve(self, strict: bool = False) -> Self:
        return self


def path_of(given: str | os.PathLike[str]) -> Path:
    """Return a path of this machine, or a UrlPath."""
    if isinstance(given, Path):
        return given
    text = os.fspath(given)
    return UrlPath(text) if is_url(text) else Path(text)


def is_url(text: str) -> bool:
    return _MARK in text


class ObjectFile(RefusedCalls):
    """An object with its size at opening. If the object was replaced since, reads return the new bytes."""

    __slots__ = ("_key", "_size", "_store")

    REASON = _REASON

    def __init__(self, path: Path, store: Any, key: str, size: int) -> None:
        super().__init__(path)
        self._store = store
        self._key = key
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def pread(self, length: int, position: int) -> bytes:
        if self._store is None:
            raise ClosedError("the file is closed", path=self.path)
        end = min(position + length, self._size)
        if position >= end:
            return b""
        with _asking("read", self.path):
            return bytes(self._store.cat_file(self._key, start=position, end=end))

    def pread_into(self, buffer: Buffer, position: int) -> int:
        target = memoryview(buffer).cast("B")
        data = self.pread(len(target), position)
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._store = None


class ObjectFileSystem(RefusingWrites):
    REASON = _REASON

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> ObjectFile:
        if write or create:
            refuse("open for writing", path, self.REASON)
        store, key = _located(path)
        with _asking("open", path):
            found = store.info(key)
        if found["type"] != "file":
            raise StorageError("cannot open: it is a directory, a file was expected", path=path)
        return ObjectFile(path, store, key, found["size"])

    def list_names(self, directory: Path) -> list[str]:
        return sorted(_listed(directory))

    def list_directories(self, directory: Path) -> list[str]:
        return sorted(name for name, found in _listed(directory).items() if found["type"] == "directory")

    def list_sizes(self, directory: Path) -> dict[str, int]:
        listed = sorted(_listed(directory).items())
        return {name: found["size"] if found["type"] == "file" else _NO_FILE for name, found in listed}

    def stat(self, path: Path) -> FileStat:
        """Return the status of an object. Its time is 0 if the store reports none."""
        store, key = _located(path)
        with _asking("stat", path):
            found = store.info(key)
        is_dir = found["type"] == "directory"
        return FileStat(size=0 if is_dir else found["size"], mtime_ms=_time_ms(found), is_dir=is_dir)

    def exists(self, path: Path) -> bool:
        store, key = _located(path)
        with _asking("look for", path):
            return bool(store.exists(key))

    def lock_holder(self, path: Path) -> int | None:
        return None


def require_disk(paths: Iterable[Path]) -> None:
    """Raise ReadOnlyError if one of ``paths`` is a URL. Commands that change files call it first."""
    for path in paths:
        if isinstance(path, UrlPath):
            refuse("change anything", path, ObjectFileSystem.REASON)


def _located(path: Path) -> tuple[Any, str]:
    """Return the store and the key in it. Raise ConfigError if its library is missing or the protocol is unknown."""
    protocol = str(path).partition("://")[0]
    try:
        from fsspec.core import url_to_fs
    except ModuleNotFoundError:
        raise ConfigError(f"{protocol}:// is read with fsspec: install tidelog[objects]", path=path) from None
    try:
        store, key = url_to_fs(str(path))
    except (ImportError, ValueError) as error:
        raise ConfigError(f"{protocol}:// cannot be read: {error}", path=path) from None
    return store, key


def _listed(directory: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return fsspec's entry for each name in a directory."""
    store, key = _located(directory)
    with _asking("list the directory", directory):
        store.invalidate_cache(key)
        listed = {entry["name"].rstrip("/"): entry for entry in store.ls(key, detail=True)}
    # Some stores have an object for the directory itself.
    return {name.rpartition("/")[2]: entry for name, entry in listed.items() if name.strip("/") != key.strip("/")}


def _time_ms(found: Mapping[str, Any]) -> int:
    when = next((found[name] for name in _TIMES if found.get(name)), 0)
    if isinstance(when, str):
        when = datetime.fromisoformat(when)
    return int((when.timestamp() if isinstance(when, datetime) else when) * 1000)


@contextmanager
def _asking(action: str, path: Path) -> Iterator[None]:
    """Convert any exception of a store's library into a StorageError about ``path``."""
    try:
        yield
    except TidelogError:
        raise
    except FileNotFoundError as error:
        raise FileMissingError(f"cannot {action}: no such file or directory", path=path) from error
    except Exception as error:
        raise StorageError(f"cannot {action}: {str(error) or type(error).__name__}", path=path) from error
