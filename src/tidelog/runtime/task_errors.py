"""What goes wrong in background tasks: counted always, logged once for each text.

A disk that fails every minute does not fill the log. A TidelogError is a line (it is the disk's fault, or a user's);
anything else is ours and has its stack trace.

Called by: schedulers. Thread rule: any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter

from tidelog.model.errors import TidelogError

_REMEMBERED = 1000
"""Texts, of all tasks; when there are more they are all forgotten, and what still fails is logged anew."""

_log = logging.getLogger(__name__)


class TaskErrors:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Errors by the task's name; only grows."""
        self._logged: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def note(self, task: str, error: BaseException) -> None:
        with self._lock:
            self.counts[task] += 1
            if not self._is_new((task, f"{type(error).__name__}: {error}")):
                return
        trace = None if isinstance(error, TidelogError) else error
        _log.error("Background task %s failed: %s", task, str(error) or type(error).__name__, exc_info=trace)

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
