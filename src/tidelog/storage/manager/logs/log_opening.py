"""The values shared by all logs of one owner when they are opened: clock, settings, failure listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.load.open_request import LogContext

TopicSettings = Callable[[str], Mapping[str, str]]
"""The settings that a topic overrides, in Kafka's keys and texts. The result is empty if there are none."""


@dataclass(frozen=True, kw_only=True)
class LogOpening(LogContext):
    config_of: Callable[[str], LogConfig]
    """The current settings of a topic."""
