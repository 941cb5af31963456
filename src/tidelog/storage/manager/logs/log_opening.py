"""What the logs of one owner have in common when they are opened: clock, settings, who hears of failures. A value.

Called by: whoever owns log directories (``LogManager``, ``WrittenDirectory``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.model import StorageError
from tidelog.runtime import Clock, Scheduler
from tidelog.storage.log.config import LogConfig

TopicSettings = Callable[[str], Mapping[str, str]]
"""The settings a topic has of its own, in Kafka's keys and texts; empty for a topic without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOpening:
    clock: Clock
    config_of: Callable[[str], LogConfig]
    """Of a topic, as it is at the moment."""
    scheduler: Scheduler | None = None
    is_sole_replica: bool = True
    """Nobody replicates the logs: the high watermark is the log end."""
    verifies_transactions: bool = False
    on_failure: Callable[[StorageError], None] = lambda _error: None
    on_flush: Callable[[int], None] = lambda _took_ms: None
    """See ``OpenRequest``."""
