"""The cleaner: threads that compact the logs of several log directories, one log each at a time.

State: *new* -> ``startup`` -> *running* -> ``shutdown`` -> *stopped*; ``reconfigure`` stops the threads and starts as
many as are wanted then, so that dead ones are replaced too; where no more threads are to be had, there are fewer. What
a log may not be touched for, and how far each is compacted, is its ``CleanerState``'s.
Called by: the log manager. Thread rule: any thread. Source: Kafka's ``LogCleaner``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidelog.model import StorageError
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.runtime.throttle import Throttle
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState
from tidelog.storage.cleaner.pool.cleaner_thread import Clean, CleanerThread, CleanerWork

_log = logging.getLogger(__name__)


class LogCleaner:
    def __init__(
        self,
        state: CleanerState,
        settings: CleanerSettings,
        *,
        clock: Clock = SYSTEM_CLOCK,
        clean: Clean | None = None,
        on_failure: Callable[[StorageError], None] = lambda _error: None,
    ) -> None:
        """``on_failure`` is told of disks that fail; it may be called under a lock of the state's."""
        self.state = state
        self.settings = settings
        self.throttle = Throttle(settings.io_max_bytes_per_second, clock=clock)
        self._clock = clock
        self._clean = clean
        self._on_failure = on_failure
        self._changing = threading.Lock()
        self._is_running = False
        self._threads: tuple[CleanerThread, ...] = ()

    @property
    def threads(self) -> tuple[CleanerThread, ...]:
        """Dead ones too."""
        return self._threads

    def startup(self) -> None:
        """RuntimeError where it is running."""
        with self._changing:
            if self._is_running:
                raise RuntimeError("the log cleaner was started already")
            self._start()

    def shutdown(self) -> None:
        """What the threads do is broken off, and waited for; idempotent."""
        with self._changing:
            self._stop()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Go by other settings from now on; what the threads do is broken off, and begun again by new ones."""
        with self._changing:
            was_running = self._is_running
            self._stop()
            if settings.io_max_bytes_per_second != self.settings.io_max_bytes_per_second:
                _log.info("Updating logCleanerIoMaxBytesPerSecond: %s", settings.io_max_bytes_per_second)
                self.throttle.per_second = settings.io_max_bytes_per_second
            self.settings = settings
            if was_running:
                self._start()

    # --- inside ---

    def _start(self) -> None:
        _log.info("Starting the log cleaner with %d threads", self.settings.threads)
        work = CleanerWork(
            state=self.state,
            settings=self.settings,
            throttle=self.throttle,
            clock=self._clock,
            clean=self._clean,
            on_failure=self._on_failure,
        )
        self._is_running = True
        for number in range(self.settings.threads):
            thread = CleanerThread(number, work)
            try:
                thread.start()
            except RuntimeError as error:
                _log.error("The log cleaner goes on with %d threads of %d: %s", number, self.settings.threads, error)
                break
            self._threads += (thread,)

    def _stop(self) -> None:
        if self._is_running:
            _log.info("Shutting down the log cleaner")
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join()
        self._threads = ()
        self._is_running = False
