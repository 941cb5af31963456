"""Errors that do not stop background work: each one is counted, and each text is logged once.

A disk that fails every minute therefore does not fill the log. A TidelogError (the disk's fault, or a user's) is logged
as a line. Any other error is a bug in tidelog and has a stack trace. Thread rule: any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter

from tidelog.model.errors import TidelogError

_REMEMBERED = 1000
"""The number of logged texts to remember. Above it all are forgotten, and errors that persist are logged again."""


class RepeatedErrors:
    def __init__(self, logger: logging.Logger, message: str) -> None:
        """``message`` has two ``%s``, for the source of the error and for its text."""
        self.counts: Counter[str] = Counter()
        """Errors by source. A count never decreases."""
        self._logger = logger
        self._message = message
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def note(self, who: str, error: BaseException, level: int = logging.ERROR) -> None:
        with self._lock:
            self.counts[who] += 1
            if not self._is_new((who, f"{type(error).__name__}: {error}")):
                return
        trace = None if isinstance(error, TidelogError) else error
        self._logger.log(level, self._message, who, str(error) or type(error).__name__, exc_info=trace)

    def forget(self) -> None:
        """Reset the lock and the counts in a forked child."""
        self._lock = threading.Lock()
        self.counts.clear()
        self._logged.clear()

    def _is_new(self, text: tuple[str, str]) -> bool:
        if text in self._logged:
            return False
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        self._logged.add(text)
        return True
