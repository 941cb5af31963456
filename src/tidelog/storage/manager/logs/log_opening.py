"""The values shared by all logs of one owner when they are opened: clock, settings, failure listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.model import StorageError
from tidelog.runtime import Clock, Scheduler
from tidelog.storage.log.config import LogConfig

TopicSettings = Callable[[str], Mapping[str, str]]
"""The settings that a topic overrides, in Kafka's keys and texts. The result is empty if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOpening:
    clock: Clock
    config_of: Callable[[str], LogConfig]
    """The current settings of a topic."""
    scheduler: Scheduler | None = None
    is_sole_replica: bool = True
    """No other broker replicates the logs, so the high watermark is the log end."""
    verifies_transactions: bool = False
    on_failure: Callable[[StorageError], None] = lambda _error: None
    on_flush: Callable[[int], None] = lambda _took_ms: None
    """The same callback as in ``OpenRequest``."""
