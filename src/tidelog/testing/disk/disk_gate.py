"""The gate of every disk call: it counts the call, delays it, fails it, or stops it for good.

It owns the disk's lock, the list of changing calls, the faults, the moment of the power loss, and the free space. A
call is carried out under the lock, but waits for a slow disk without it. Thread rule: any thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidelog.runtime import Clock
from tidelog.storage.fs.os_errors import SystemCall
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

    @contextmanager
    def call(
        self, name: str, path: Path, action: str, *, changes: bool = True, about: Path | None = None
    ) -> Iterator[None]:
        """Carry out a call in the ``with`` block. ``action`` is the operation in an error's message.

        ``changes`` is False if there is nothing to change; the call is then not counted. ``about`` is the path in an
        error's message, if it is not the call's own.
        """
        with SystemCall(action, about or path):
            with self.lock:
                number = self._count(name, path) if changes and name in CHANGING_CALLS else None
                self.require_power()
                faults = [fault for fault in self.faults if fault.happens(name, path, number)]
            for fault in faults:
                if fault.delay_ms:
                    self.clock.sleep_ms(fault.delay_ms)
            with self.lock:
                self.require_power()
                for fault in faults:
                    if fault.errno:
                        raise fault.error()
                yield

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

    def _count(self, name: str, path: Path) -> int:
        self.require_power()
        call = DiskCall(len(self.calls), name, path)
        if self.before_call is not None:
            self.before_call(call)
        if self.crash_at is not None and call.number >= self.crash_at:
            self.is_crashed = True
            self.require_power()
        self.calls.append(call)
        return call.number


def os_error(number: int) -> OSError:
    """Return the error that a call of the operating system raises."""
    return OSError(number, os.strerror(number))
