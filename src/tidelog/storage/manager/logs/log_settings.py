"""Which settings the logs of a manager have: the broker's defaults with the topic's own over them, and what follows
when one of the two changes.

A log that is open has the new settings at once; one whose topic is not compacted any more is left by the cleaner. A
topic whose settings cannot be used is said in the log, and its open logs go on as they are.
Called by: ``LogManager``; changes under its lock, ``of`` by any thread. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from tidelog.model import ClosedError, ConfigError, StorageError, TopicPartition
from tidelog.storage.log.config import LogConfig
from tidelog.storage.manager.logs.log_opening import TopicSettings
from tidelog.storage.manager.logs.log_table import LogTable

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
        """As it is at the moment."""
        settings = self._topic_settings(topic)
        return self.default.with_properties(settings) if settings else self.default

    def update_topic(self, topic: str) -> None:
        """The settings of a topic have changed."""
        try:
            config = self.of(topic)
        except ConfigError as error:
            _log.error("The logs of topic %s keep the settings they had: %s", topic, error)
            return
        for partition, log in self._table.of_topic(topic):
            was_compacted = log.config.is_compacted
            with suppress(ClosedError, StorageError):  # its disk has failed
                log.update_config(config)
            if was_compacted and not config.is_compacted:
                self._on_not_compacted(partition)

    def update_default(self, config: LogConfig) -> None:
        """The broker's settings have changed; what a topic has of its own stays."""
        self.default = config
        for topic in {partition.topic for partition in (*self._table.current, *self._table.future)}:
            self.update_topic(topic)
