"""The log cleaner: threads that compact the logs of several log directories, each thread one log at a time.

States: *new* -> ``startup`` -> *running* -> ``shutdown`` -> *stopped*. ``reconfigure`` stops the threads and starts the
new number, which also replaces dead threads. If the system refuses a thread, the cleaner runs with fewer. The pauses
and the checkpoints of the logs belong to ``CleanerState``.
Thread rule: any thread. Source: Kafka's ``LogCleaner``.
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
        """The callback ``on_failure`` gets disk failures; it may be called while ``CleanerState`` holds its lock."""
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
        """The threads, including dead ones."""
        return self._threads

    def startup(self) -> None:
        """Start the threads. Raise RuntimeError if they are running."""
        with self._changing:
            if self._is_running:
                raise RuntimeError("the log cleaner was started already")
            self._start()

    def shutdown(self) -> None:
        """Abort the running cleans and wait for the threads; idempotent."""
        with self._changing:
            self._stop()

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Use other settings from now on. Running cleans are aborted, and new threads start them again."""
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
