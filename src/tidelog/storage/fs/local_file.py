"""An open file of this machine: thin calls of ``os`` with translated errors and no cache.

Thread rule: any thread, as in the File protocol.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidelog.kernel import OpenFile
from tidelog.model import ClosedError, StorageError
from tidelog.storage.fs.os_errors import MAP, SystemCall, storage_error

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAP_OPTIONS: dict[str, bool] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Mappings keep no descriptor of their own (Python 3.13 and later), because they would exhaust the limit."""


class LocalFile(OpenFile):
    """A descriptor and its path. The hottest calls avoid ``SystemCall`` for speed."""

    __slots__ = ()

    has_descriptor = True
    _path: Path

    @property
    def path(self) -> Path:
        return self._path

    @property
    def size(self) -> int:
        try:
            return os.fstat(self.fileno()).st_size
        except OSError as error:
            raise storage_error(error, "stat", self._path) from error

    def pread(self, length: int, position: int) -> bytes:
        try:
            data = os.pread(self.fileno(), length, position)
            self.fileno()  # fails if the file was closed meanwhile: its number may now be another file's
            if len(data) == length or not data:
                return data
            # A read is short at the end of the file, after a signal, or at the kernel's limit of 2 GiB per call.
            parts = [data]
            done = len(data)
            while done < length:
                data = os.pread(self.fileno(), length - done, position + done)
                if not data:
                    break
                parts.append(data)
                done += len(data)
            self.fileno()
            return b"".join(parts) if len(parts) > 1 else parts[0]
        except OSError as error:
            raise storage_error(error, "read", self._path) from error

    def pread_into(self, buffer: Buffer, position: int) -> int:
        with SystemCall("read", self._path), memoryview(buffer).cast("B") as view:
            done = 0
            while done < len(view):
                count = os.preadv(self.fileno(), [view[done:]], position + done)
                if count == 0:
                    break
                done += count
            self.fileno()
            return done

    def _write_slowly(self, data: Buffer, position: int) -> int:
        try:
            done = os.pwrite(self.fileno(), data, position)
            with memoryview(data) as view:
                size = view.nbytes
                if done < size:  # after a signal, or at the kernel's limit of 2 GiB per call
                    rest = view.cast("B")
                    while done < size:
                        done += os.pwrite(self.fileno(), rest[done:], position + done)
            return done
        except OSError as error:
            raise storage_error(error, "write", self._path) from error

    def pwrite_all(self, parts: Sequence[memoryview], position: int) -> None:
        with SystemCall("write", self._path):
            done = os.pwritev(self.fileno(), parts, position)
        if done < sum(map(len, parts)):
            self.pwrite(b"".join(parts)[done:], position + done)

    def truncate(self, size: int) -> None:
        with SystemCall(f"truncate to {size} bytes", self._path):
            os.ftruncate(self.fileno(), size)

    def allocate(self, size: int) -> None:
        if self.size < size:
            with SystemCall(f"allocate {size} bytes", self._path):
                os.ftruncate(self.fileno(), size)

    def sync(self) -> None:
        with SystemCall("sync", self._path):
            os.fsync(self.fileno())

    def map(self, size: int) -> mmap.mmap:
        if size <= 0:
            raise ValueError(f"a mapping of {size} bytes: the operating system refuses empty ones")
        try:
            with SystemCall(MAP, self._path):
                return mmap.mmap(self.fileno(), size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, **_MAP_OPTIONS)
        except ValueError as error:  # only mmap can detect it: the file may shrink before the call
            raise StorageError(f"cannot map {size} bytes of a file of {self.size}", path=self._path) from error

    def fileno(self) -> int:
        if self._fd < 0:
            raise ClosedError("the file is closed", path=self._path)
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                os.close(fd)
            except OSError as error:
                raise storage_error(error, "close", self._path) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
