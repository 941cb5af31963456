"""Errors of what goes on in spite of them, as background tasks do: counted always, logged once for each text.

A disk that fails every minute does not fill the log. A TidelogError is a line (it is the disk's fault, or a user's);
anything else is ours and has its stack trace.

Called by: schedulers, metrics. Thread rule: any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter

from tidelog.model.errors import TidelogError

_REMEMBERED = 1000
"""Texts; when there are more they are all forgotten, and what still fails is logged anew."""


class RepeatedErrors:
    def __init__(self, logger: logging.Logger, message: str) -> None:
        """``message`` with two ``%s``: who failed, and the error's text."""
        self.counts: Counter[str] = Counter()
        """Errors by who failed; only grows."""
        self._logger = logger
        self._message = message
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def note(self, who: str, error: BaseException) -> None:
        with self._lock:
            self.counts[who] += 1
            if not self._is_new((who, f"{type(error).__name__}: {error}")):
                return
        trace = None if isinstance(error, TidelogError) else error
        self._logger.error(self._message, who, str(error) or type(error).__name__, exc_info=trace)

    def forget(self) -> None:
        """In a forked child: what is its own begins now."""
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
