"""Every operating-system call of the engine, as three protocols: FileSystem, File, Lock.

Owns nothing; it is the seam at which a test puts a simulated disk that crashes between any two calls, loses what was
not synced, tears a write or runs full.

What an implementation promises:

- Failures are tidelog errors with the path in them, never ``OSError``: FileMissingError (no such file), DirectoryError
  (a directory cannot be listed or used), LockedError, StorageError (all others: disk full, I/O error, permission).
- ``pread`` returns fewer bytes than asked for only at the end of the file; ``pwrite`` writes all or raises.
- ``rename`` replaces an existing file atomically. Nothing is durable before ``File.sync`` (contents, size) and
  ``sync_dir`` (names).

Thread rule: every call may be made from any thread; a File's position-less calls do not disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """``size`` in bytes, ``mtime_ms`` in milliseconds since the epoch."""

    size: int
    mtime_ms: int
    is_dir: bool


class MappedBytes(Protocol):
    """The bytes of a file as the page cache has them (``mmap.mmap`` is one); never read it after its file shrank."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def close(self) -> None: ...


class File(Protocol):
    """An open file without a current position."""

    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int:
        """Bytes now, asked of the file system (another process may write the file)."""
        ...

    def pread(self, length: int, position: int) -> bytes: ...

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from ``position`` on; the number of bytes read (fewer only at the end of the file)."""
        ...

    def pwrite(self, data: Buffer, position: int) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) to ``size`` bytes."""
        ...

    def allocate(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, zeros at its end, sparse where the file system can."""
        ...

    def sync(self) -> None: ...

    def map(self, size: int) -> MappedBytes:
        """The first ``size`` bytes, read-only; later ``pwrite`` calls show in it. ``size`` is above 0."""
        ...

    def fileno(self) -> int: ...

    def close(self) -> None:
        """Idempotent; every other call on a closed file raises ClosedError."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lock(Protocol):
    """A held lock on a file; the file stays when the lock goes."""

    @property
    def path(self) -> Path: ...

    def release(self) -> None:
        """Idempotent."""
        ...


class FileSystem(Protocol):
    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        """Open a regular file. ``create`` makes it if missing (and implies ``write``); nothing is ever cut here."""
        ...

    def list_names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def list_directories(self, directory: Path) -> list[str]:
        """The names of the directories in a directory, sorted."""
        ...

    def list_sizes(self, directory: Path) -> dict[str, int]:
        """The names in a directory, sorted, each with the bytes of the file; -1 for what is no regular file."""
        ...

    def stat(self, path: Path) -> FileStat: ...

    def exists(self, path: Path) -> bool: ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` atomically; durable after ``sync_dir`` of the directory."""
        ...

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        """For a file that takes another's place: retention asks for the age of a log without timestamps."""
        ...

    def remove(self, path: Path, *, missing_ok: bool = False) -> None: ...

    def make_dir(self, path: Path) -> None:
        """With its parents; no error if the directory is there."""
        ...

    def remove_dir(self, path: Path) -> None:
        """An empty directory."""
        ...

    def sync_dir(self, path: Path) -> None: ...

    def lock(self, path: Path) -> Lock:
        """Lock a file (made if missing) against other processes and this one; LockedError if it is held."""
        ...

    def lock_holder(self, path: Path) -> int | None:
        """Process id of whoever holds the lock on ``path``, None if nobody does; takes no lock, creates nothing."""
        ...
