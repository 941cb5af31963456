"""The locks of an open log and its state: open, failed, retired or closed.

A log is *failed* after a failed write: changes are refused, reads continue. It is *retired* if another log replaced it
or if it will be deleted: the same holds, but its directory may be renamed. A *closed* log refuses reads and changes. A
forked child of the process that opened the log may change nothing.

Use ``with lifecycle.writing`` to change the log, and ``renaming`` to rename its directory. ``lock`` alone also
serves calls that a failed log allows. ``files`` guards reading and removing files while appends go on; take it
before the lock. A write failure is reported to the log's opener once, under all locks held at that moment.
Thread rule: any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tidelog.model import ClosedError, StorageError
from tidelog.storage.fs import ForkGuard


class LogLifecycle:
    def __init__(self, directory: Path, on_failure: Callable[[StorageError], None]) -> None:
        self.directory = directory
        self._on_failure = on_failure
        self.guard = ForkGuard(directory)
        self.lock = threading.RLock()
        self.files = threading.Lock()
        self.is_closed = False
        self.is_retired = False
        self.failure: StorageError | None = None
        self.offline: StorageError | None = None
        """The failure for which the log's disk was taken offline."""
        self.writing = _WritableLock(self)
        self.renaming = _WritableLock(self, retired_too=True)

    def require_open(self) -> None:
        """Raise ClosedError if the log is closed, or StorageError if its disk was taken offline."""
        if self.is_closed:
            if self.offline is not None:
                raise StorageError(f"the log is offline: {self.offline}", path=self.directory) from _root(self.offline)
            raise ClosedError("the log is closed", path=self.directory)

    def require_healthy(self) -> None:
        """Raise StorageError if a write failed.

        A failed log must not be flushed either, because its unfinished segment would then count as complete.
        """
        if self.failure is not None:
            message = f"the log refuses writes because an earlier one failed: {self.failure}"
            raise StorageError(message, path=self.directory) from _root(self.failure)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Hold both locks while the files are closed. The log is closed afterwards, and an open one also failed.

        A forked child takes no locks: the threads that may hold them do not exist in it.
        """
        with ExitStack() as locks:
            if self.guard.is_owner:
                locks.enter_context(self.files)
                locks.enter_context(self.lock)
            if not self.is_closed and self.failure is None:
                self.failure = StorageError("the log was closed without a clean shutdown", path=self.directory)
            self.is_closed = True
            yield

    def fail(self, error: StorageError) -> None:
        """Mark the log as failed after a failed write, and report the error."""
        if self.failure is None:
            self.failure = error
            self.report(error)

    def write(self, write: Callable[[], object]) -> None:
        """Write a small file while appends go on, unless the log is closed or failed. The caller holds ``files``."""
        if self.is_closed or self.failure is not None:
            return
        try:
            write()
        except StorageError as error:
            self.fail(error)
            raise

    def report(self, error: Exception) -> None:
        """Report a StorageError to the log's opener. This alone does not fail the log: a read may have failed."""
        if isinstance(error, StorageError):
            self._on_failure(error)


class _WritableLock:
    """The lock of a writable log (else ClosedError, StorageError or ForkError). A StorageError fails the log."""

    __slots__ = ("_lifecycle", "_retired_too")

    def __init__(self, lifecycle: LogLifecycle, *, retired_too: bool = False) -> None:
        self._lifecycle = lifecycle
        self._retired_too = retired_too

    def __enter__(self) -> None:
        lifecycle = self._lifecycle
        lifecycle.guard.check()
        lifecycle.lock.acquire()
        if lifecycle.is_closed or lifecycle.failure is not None or (lifecycle.is_retired and not self._retired_too):
            lifecycle.lock.release()
            lifecycle.require_open()
            lifecycle.require_healthy()
            raise ClosedError("the log was replaced by another one or deleted", path=lifecycle.directory)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StorageError):
            self._lifecycle.fail(error)
        self._lifecycle.lock.release()


def _root(failure: StorageError) -> BaseException | None:
    """Return the failure's cause. ``is_disk_failure`` then also holds for errors that follow from it."""
    return failure.__cause__
