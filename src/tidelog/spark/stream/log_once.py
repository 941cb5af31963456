"""A function that logs each sentence once: a waiting stream would repeat it at every trigger."""

from __future__ import annotations

import logging

_MOST_REMEMBERED = 1000


class LogOnce:
    """The sentences logged so far. It forgets them all when there are too many. Thread rule: one thread."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[str] = set()

    def __call__(self, sentence: str) -> None:
        if sentence in self._said:
            return
        if len(self._said) == _MOST_REMEMBERED:
            self._said.clear()
        self._said.add(sentence)
        self._log.warning("%s", sentence)
