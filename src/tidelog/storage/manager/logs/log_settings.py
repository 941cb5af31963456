"""The settings of a manager's logs: the broker's defaults with each topic's overrides.

A change applies to open logs at once. If a topic is no longer compacted, the cleaner stops its work on it. If a topic's
settings are invalid, the error is logged and its open logs keep their settings. Thread rule: changes need the manager's
lock. Any thread may call ``of``. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from tidelog.model import ClosedError, ConfigError, StorageError, TopicPartition
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.logs.log_table import LogTable

TopicSettings = Callable[[str], Mapping[str, str]]
"""The settings that a topic overrides, in Kafka's keys and texts. The result is empty if there are none."""

_log = logging.getLogger(__name__)


class LogSettings:
    def __init__(
        self,
        default: LogConfig,
        topic_settings: TopicSettings,
        table: LogTable,
        on_not_compacted: Callable[[TopicPartition], None],
    ) -> None:
        self.default = default
        self._topic_settings = topic_settings
        self._table = table
        self._on_not_compacted = on_not_compacted

    def of(self, topic: str) -> LogConfig:
        """Return the current settings of a topic. As in Kafka, settings of another release are ignored.

        Raise ConfigError for an invalid value.
        """
        settings = self._topic_settings(topic)
        return self.default.with_properties(settings, ignore_unknown=True) if settings else self.default

    def update_topic(self, topic: str) -> None:
        """Apply changed settings of a topic."""
        try:
            config = self.of(topic)
        except ConfigError as error:
            _log.error("The new settings of topic %s are invalid; its logs keep the previous ones: %s", topic, error)
            return
        for partition, log in self._table.of_topic(topic):
            was_compacted = log.config.is_compacted
            with suppress(ClosedError, StorageError):  # its disk has failed
                log.update_config(config)
            if was_compacted and not config.is_compacted:
                self._on_not_compacted(partition)

    def update_default(self, config: LogConfig) -> None:
        """Apply changed broker settings. A topic's own settings still override them."""
        self.default = config
        for topic in {partition.topic for partition in (*self._table.current, *self._table.future)}:
            self.update_topic(topic)
