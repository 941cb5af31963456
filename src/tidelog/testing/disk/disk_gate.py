"""The gate of every disk call: it counts the call, delays it, fails it, or stops it for good.

It owns the disk's lock, the list of changing calls, the faults, the moment of the power loss, and the free space. A
call is carried out under the lock, but waits for a slow disk without it. Thread rule: any thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tidelog.runtime import Clock
from tidelog.storage.fs.os_errors import storage_error
from tidelog.testing.disk.disk_calls import CHANGING_CALLS, DiskCall, PowerLoss
from tidelog.testing.disk.disk_faults import DiskFault
from tidelog.testing.disk.sector_map import SECTOR_BYTES


class DiskGate:
    def __init__(self, clock: Clock, free_bytes: int | None) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.calls: list[DiskCall] = []
        self.faults: list[DiskFault] = []
        self.free_bytes = free_bytes
        self.crash_at: int | None = None
        self.is_crashed = False
        self.before_call: Callable[[DiskCall], None] | None = None

    def call(self, name: str, path: Path, action: str, *, changes: bool = True, about: Path | None = None) -> GatedCall:
        """Carry out a call in the ``with`` block. ``action`` is the operation in an error's message.

        ``changes`` is False if there is nothing to change; the call is then not counted. ``about`` is the path in an
        error's message, if it is not the call's own.
        """
        return GatedCall(self, name, path, action, is_counted=changes and name in CHANGING_CALLS, about=about or path)

    def require_power(self) -> None:
        if self.is_crashed:
            raise PowerLoss(f"the disk lost its power before call {len(self.calls)}")

    def take(self, sectors: int) -> int:
        """Reserve space for new sectors, and return the number for which there is space."""
        if self.free_bytes is None:
            return sectors
        taken = min(sectors, self.free_bytes // SECTOR_BYTES)
        self.free_bytes -= taken * SECTOR_BYTES
        return taken

    def give_back(self, sectors: int) -> None:
        if self.free_bytes is not None:
            self.free_bytes += sectors * SECTOR_BYTES

    def count(self, name: str, path: Path) -> int:
        """Count a changing call, and return its number."""
        self.require_power()
        call = DiskCall(len(self.calls), name, path)
        if self.before_call is not None:
            self.before_call(call)
        if self.crash_at is not None and call.number >= self.crash_at:
            self.is_crashed = True
            self.require_power()
        self.calls.append(call)
        return call.number


class GatedCall:
    """A call of the disk. The ``with`` block runs under the disk's lock, and an OSError becomes a StorageError.

    Tests make many millions of these calls, so a call without faults takes the lock once and creates one object.
    """

    __slots__ = ("_about", "_action", "_gate", "_is_counted", "_name", "_path")

    def __init__(self, gate: DiskGate, name: str, path: Path, action: str, *, is_counted: bool, about: Path) -> None:
        self._gate = gate
        self._name = name
        self._path = path
        self._action = action
        self._is_counted = is_counted
        self._about = about

    def __enter__(self) -> None:
        gate = self._gate
        gate.lock.acquire()
        try:
            number = gate.count(self._name, self._path) if self._is_counted else None
            if gate.is_crashed:
                gate.require_power()
            if gate.faults:
                self._meet_faults(number)
        except BaseException as error:
            gate.lock.release()
            if isinstance(error, OSError):
                raise storage_error(error, self._action, self._about) from error
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gate.lock.release()
        if error is not None and isinstance(error, OSError):
            raise storage_error(error, self._action, self._about) from error

    def _meet_faults(self, number: int | None) -> None:
        """Wait for a slow disk without the lock, and raise the error of a fault."""
        gate = self._gate
        faults = [fault for fault in gate.faults if fault.happens(self._name, self._path, number)]
        delays_ms = [fault.delay_ms for fault in faults if fault.delay_ms]
        if delays_ms:
            gate.lock.release()
            try:
                for delay_ms in delays_ms:
                    gate.clock.sleep_ms(delay_ms)
            finally:
                gate.lock.acquire()
            gate.require_power()
        for fault in faults:
            if fault.errno:
                raise fault.error()


def os_error(number: int) -> OSError:
    """Return the error that a call of the operating system raises."""
    return OSError(number, os.strerror(number))
