"""Who may do what with an open log: its lock, and whether it is open, failed or closed.

States: *open* -> *failed* (a write did not go through: changes are refused from then on, reading goes on) -> *closed*
(everything is refused). A forked child of the process that opened the log may change nothing.

``with gate.changing`` is how a log is changed; ``gate.lock`` alone is for what has to be said of a failed log too, and
``gate.files`` for what reads or removes files while appends go on: it is taken before the lock.
Called by: PartitionLog. Thread rule: any thread.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tidelog.model import ClosedError, StorageError
from tidelog.storage.fs import ForkGuard


class LogGate:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.guard = ForkGuard(directory)
        self.lock = threading.Lock()
        self.files = threading.Lock()
        self.is_closed = False
        self.failure: StorageError | None = None
        self.changing = _Changing(self)

    def require_open(self) -> None:
        """ClosedError."""
        if self.is_closed:
            raise ClosedError("the log is closed", path=self.directory)


class _Changing:
    """Holds the lock of an open, sound log, else ClosedError, StorageError, ForkError; a StorageError fails it."""

    __slots__ = ("_gate",)

    def __init__(self, gate: LogGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        gate = self._gate
        gate.guard.check()
        gate.lock.acquire()
        if gate.is_closed or gate.failure is not None:
            gate.lock.release()
            gate.require_open()
            raise StorageError(f"the log takes no writes since one failed: {gate.failure}", path=gate.directory)

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StorageError):
            self._gate.failure = error
        self._gate.lock.release()
