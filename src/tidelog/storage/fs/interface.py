"""Every operating-system call of the engine, as three protocols: FileSystem, File and Lock.

The module owns nothing. A test can replace the file system with a simulated disk. That disk may crash between any two
calls, lose unsynced data, tear a write or run full.

Every implementation guarantees:

- Failures are tidelog errors that carry the path, never ``OSError``: FileMissingError, DirectoryError (a directory
  cannot be listed or used), LockedError, StorageError (all others: disk full, I/O error, permission).
- ``pread`` returns fewer bytes than requested only at the end of the file. ``pwrite`` writes all bytes or raises.
- ``rename`` replaces an existing file atomically. Nothing is durable before ``File.sync`` (contents, size) and
  ``sync_dir`` (names).

Thread rule: any thread. A File has no current position, so concurrent calls do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """``size`` is in bytes, ``mtime_ms`` in milliseconds since the epoch."""

    size: int
    mtime_ms: int
    is_dir: bool
    file_id: int = field(default=0, compare=False)
    """The number of the file on its disk, equal for all names of one file. In object storage it is 0."""
    disk: int = field(default=0, compare=False)
    """The number of the disk. Only files of one disk can share bytes."""
    links: int = field(default=1, compare=False)
    """The number of names. All names of one file share its bytes."""


class MappedBytes(Protocol):
    """The bytes of a file in the page cache (``mmap.mmap`` is one). Never read a mapping after its file shrank."""

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...

    def close(self) -> None: ...


class File(Protocol):
    """An open file without a current position."""

    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int:
        """The current size in bytes, read from the file system because another process may write the file."""
        ...

    def pread(self, length: int, position: int) -> bytes: ...

    def pread_into(self, buffer: Buffer, position: int) -> int:
        """Fill ``buffer`` from ``position`` on. Return the bytes read, fewer only at the end of the file."""
        ...

    def pwrite(self, data: Buffer, position: int) -> int: ...

    def pwrite_all(self, parts: Sequence[memoryview], position: int) -> None:
        """Write the parts, one behind the other, with one system call if it takes them all."""
        ...

    def truncate(self, size: int) -> None:
        """Truncate or extend (with zeros) to ``size`` bytes."""
        ...

    def allocate(self, size: int) -> None:
        """Extend the file to at least ``size`` bytes with zeros, sparse if the file system supports it."""
        ...

    def sync(self) -> None: ...

    def map(self, size: int) -> MappedBytes:
        """Map the first ``size`` bytes (above 0) read-only. The mapping shows later ``pwrite`` calls."""
        ...

    @property
    def has_descriptor(self) -> bool:
        """True if ``fileno`` returns a number that the operating system knows."""
        ...

    def fileno(self) -> int: ...

    def close(self) -> None:
        """Close the file. The call is idempotent. Every other call on a closed file raises ClosedError."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Lock(Protocol):
    """A held lock on a file. The file remains after the release."""

    @property
    def path(self) -> Path: ...

    def release(self) -> None:
        """Release the lock. The call is idempotent."""
        ...


class FileSystem(Protocol):
    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:
        """Open a regular file. ``create`` creates a missing file and implies ``write``. Opening never truncates."""
        ...

    def list_names(self, directory: Path) -> list[str]:
        """Return the sorted names in a directory."""
        ...

    def list_directories(self, directory: Path) -> list[str]:
        """Return the sorted names of the subdirectories of a directory."""
        ...

    def list_sizes(self, directory: Path) -> dict[str, int]:
        """Return the sorted names in a directory with the file sizes in bytes, -1 for anything but a regular file."""
        ...

    def stat(self, path: Path) -> FileStat: ...

    def exists(self, path: Path) -> bool: ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace ``target`` atomically. The change is durable after ``sync_dir`` of the directory."""
        ...

    def link(self, source: Path, target: Path) -> bool:
        """Give the file ``source`` a second name, durable after ``sync_dir`` of the new name's directory.

        Return False, with nothing changed, if this pair of paths cannot share a file: two disks, a file with too many
        names, a file system without links, or a file of another user.
        """
        ...

    def set_mtime(self, path: Path, mtime_ms: int) -> None:
        """Set the modification time, which retention uses for logs without timestamps. Replaced files keep theirs."""
        ...

    def remove(self, path: Path, *, missing_ok: bool = False) -> None: ...

    def make_dir(self, path: Path) -> None:
        """Create a directory and its missing parents. An existing directory is no error."""
        ...

    def remove_dir(self, path: Path) -> None:
        """Remove an empty directory."""
        ...

    def sync_dir(self, path: Path) -> None: ...

    def lock(self, path: Path) -> Lock:
        """Lock a file (created if missing) against other processes and this one. Raise LockedError if it is locked."""
        ...

    def lock_holder(self, path: Path) -> int | None:
        """Return the process id of the lock's holder, or None. The call takes no lock and creates nothing."""
        ...
