"""Who may do what with an open log: its lock, and whether it is open, failed or closed.

States: *open* -> *failed* (a write did not go through: changes are refused from then on, reading goes on) or *retired*
(another log has taken its place, or it will be deleted: the same, but its directory may move) -> *closed* (everything
is refused). A forked child of the process that opened the log may change nothing.

``with gate.changing`` is how a log is changed, ``gate.moving`` how its directory is; ``gate.lock`` alone is for what
has to be said of a failed log too, and ``gate.files`` for what reads or removes files while appends go on: it is taken
before the lock. A failure is reported to whoever opened the log, once, under whatever locks are held then.
Called by: PartitionLog. Thread rule: any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tidelog.model import ClosedError, StorageError
from tidelog.storage.fs import ForkGuard


class LogGate:
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
        """Why the disk under the log was given up."""
        self.changing = _Changing(self)
        self.moving = _Changing(self, retired_too=True)

    def require_open(self) -> None:
        """ClosedError; StorageError where the log's disk was taken offline."""
        if self.is_closed:
            if self.offline is not None:
                raise StorageError(f"the log is offline: {self.offline}", path=self.directory) from _root(self.offline)
            raise ClosedError("the log is closed", path=self.directory)

    def require_sound(self) -> None:
        """StorageError where a write did not go through.

        Such a log is not flushed either: the segment that it could not finish would count as whole.
        """
        if self.failure is not None:
            message = f"the log takes no writes since one failed: {self.failure}"
            raise StorageError(message, path=self.directory) from _root(self.failure)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Nobody is at the files; closed from then on. A log that was open has failed: it had no orderly end.

        A forked child waits for nobody: it has none of the threads that may hold the locks.
        """
        with ExitStack() as locks:
            if self.guard.is_owner:
                locks.enter_context(self.files)
                locks.enter_context(self.lock)
            if not self.is_closed and self.failure is None:
                self.failure = StorageError("the log was let go without an orderly end", path=self.directory)
            self.is_closed = True
            yield

    def fail(self, error: StorageError) -> None:
        """A write did not go through."""
        if self.failure is None:
            self.failure = error
            self.report(error)

    def report(self, error: Exception) -> None:
        """Tell whoever opened the log of a failure that need not end its writing: a read's."""
        if isinstance(error, StorageError):
            self._on_failure(error)


class _Changing:
    """Holds the lock of an open, sound log, else ClosedError, StorageError, ForkError; a StorageError fails it."""

    __slots__ = ("_gate", "_retired_too")

    def __init__(self, gate: LogGate, *, retired_too: bool = False) -> None:
        self._gate = gate
        self._retired_too = retired_too

    def __enter__(self) -> None:
        gate = self._gate
        gate.guard.check()
        gate.lock.acquire()
        if gate.is_closed or gate.failure is not None or (gate.is_retired and not self._retired_too):
            gate.lock.release()
            gate.require_open()
            gate.require_sound()
            raise ClosedError("another log has taken the place of this one, or it was deleted", path=gate.directory)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StorageError):
            self._gate.fail(error)
        self._gate.lock.release()


def _root(failure: StorageError) -> BaseException | None:
    """So that what comes of a disk's failure is told from other errors as well (``is_disk_failure``)."""
    return failure.__cause__
