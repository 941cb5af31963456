"""The translation of an ``OSError`` into one clear sentence with the path. The functions are pure."""

from __future__ import annotations

import errno
from pathlib import Path
from types import TracebackType

from tidelog.model import DirectoryError, FileMissingError, StorageError
from tidelog.storage.fs.limits import too_many_files, too_many_mappings

MAP = "map"
"""The action that can exceed the limit of mappings."""
CANNOT_LINK = frozenset({errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of a link after which a copy may still be possible."""

_REASONS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EIO: "the disk reports an input/output error",
    errno.EISDIR: "it is a directory, a file was expected",
    errno.ENOTDIR: "it, or a part of its path, is not a directory",
    errno.ENOENT: "no such file or directory",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.ENFILE: "the machine has too many open files (fs.file-max)",
    errno.EFBIG: "the file would grow past what the file system allows",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ELOOP: "too many symbolic links",
    errno.EXDEV: "source and target are on different file systems",
    errno.ENOMEM: "not enough memory",
}


def storage_error(error: OSError, action: str, path: Path) -> StorageError:
    """Return the error to raise after ``action`` (a verb phrase, such as "open") failed on ``path``."""
    reason = _reason(error, action)
    message = f"cannot {action}: {reason}"
    if error.errno == errno.ENOENT:
        return FileMissingError(message, path=path)
    if error.errno in (errno.ENOTDIR, errno.ENOTEMPTY):
        return DirectoryError(message, path=path)
    return StorageError(message, path=path)


def _reason(error: OSError, action: str) -> str:
    if error.errno == errno.EMFILE:
        return too_many_files()
    if error.errno == errno.ENOMEM and action == MAP:
        return too_many_mappings()
    return _REASONS.get(error.errno or 0) or error.strerror or str(error)


class SystemCall:
    """A context manager around system calls. It turns any OSError into a StorageError about ``path``."""

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: Path) -> None:
        """``action`` is a verb phrase, such as "open"."""
        self._action = action
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise storage_error(error, self._action, self._path) from error
