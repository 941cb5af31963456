"""Settings that change while the broker runs: from the metadata to the parts that go by them.

=============================  =======================================================================================
what changed                   what follows
=============================  =======================================================================================
this broker, or all brokers    the broker's configuration is another; then the defaults of topics, the cleaner, the
                               cordoned log directories, which the controller learns too, the limits of connections,
                               and how new ones are let in
metadata.version               the controller learns the cordoned log directories: it may have had no field for them
a topic                        its logs have new settings
others                         nothing here: who needs them asks the image
=============================  =======================================================================================

A text in the metadata that is not allowed (it was when it was written, by another release say) is left out, and said in
the log. What a crash leaves: the metadata, from which all of it is made again.
Called by: Broker, and the metadata's changes. Thread rule: the loop's; logs and cleaner are told in a thread.
Source: Kafka's ``DynamicBrokerConfig``, ``DynamicConfigPublisher``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.cluster_metadata import ClusterMetadata
from tidelog.server.metadata.image import METADATA_VERSION, ConfigResource, MetadataChange
from tidelog.server.network.limits import ConnectionCounts, NetworkLimits
from tidelog.server.network.listener import Listener
from tidelog.server.security.listener_security import ListenerSecurity
from tidelog.server.work import InThread
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.log.config import LogConfig
from tidelog.storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)


class Configured(Protocol):
    """What goes by the settings: the broker."""

    config: BrokerConfig

    @property
    def node_id(self) -> int: ...

    @property
    def metadata(self) -> ClusterMetadata: ...

    @property
    def logs(self) -> LogManager: ...

    @property
    def connection_counts(self) -> ConnectionCounts: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...

    @property
    def in_thread(self) -> InThread: ...


class DynamicSettings:
    def __init__(self, broker: Configured) -> None:
        self._broker = broker

    def on_change(self, change: MetadataChange) -> Awaitable[None] | None:
        """A listener of the metadata."""
        topics = [resource.name for resource in change.configs if resource.type is ResourceType.TOPIC]
        if not change.configs.isdisjoint(ConfigResource(ResourceType.BROKER, name) for name in self._names):
            return self._apply_and_report(topics)
        if METADATA_VERSION in change.features:
            return self._tell_topics_and_report(topics)
        return self._broker.in_thread(self._tell_topics, topics) if topics else None

    async def apply(self, topics: Sequence[str] = ()) -> None:
        """The broker's settings are what the metadata make of them, and so are those of ``topics``."""
        before, after = self._broker.config, self._configured()
        self._broker.config = after
        await self._limit_connections(after)
        for listener in self._broker.listeners:
            _secure(listener, after)
        await self._broker.in_thread(self._tell, before, after)
        await self._broker.in_thread(self._tell_topics, topics)

    async def _apply_and_report(self, topics: Sequence[str]) -> None:
        await self.apply(topics)
        await self._report_cordoned()

    async def _tell_topics_and_report(self, topics: Sequence[str]) -> None:
        await self._broker.in_thread(self._tell_topics, topics)
        await self._report_cordoned()

    async def _report_cordoned(self) -> None:
        await self._broker.metadata.report_cordoned_directories(cordoned_ids(self._broker.logs))

    async def _limit_connections(self, config: BrokerConfig) -> None:
        """Hosts may be named, and looking them up may take long."""
        try:
            limits = await self._broker.in_thread(NetworkLimits.of(config).looked_up)
        except ConfigError as error:
            _log.error("Connections are limited as before: %s", error)
        else:
            self._broker.connection_counts.change(limits)

    def _tell(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """In a thread: a log may be busy, and the cleaner lets its threads end."""
        logs = self._broker.logs
        if LogConfig.of(after) != LogConfig.of(before):
            logs.update_default_config(LogConfig.of(after))
        logs.cordon(map(Path, after.cordoned_log_dirs))
        if logs.cleaner is not None and CleanerSettings.of(after) != CleanerSettings.of(before):
            logs.cleaner.reconfigure(CleanerSettings.of(after))

    def _tell_topics(self, topics: Sequence[str]) -> None:
        for topic in topics:
            self._broker.logs.update_topic_config(topic)

    @property
    def _names(self) -> tuple[str, str]:
        """Of the resources that are about this broker: all brokers, and itself."""
        return "", str(self._broker.node_id)

    def _configured(self) -> BrokerConfig:
        settings_of = self._broker.metadata.image.settings_of
        of_all, own = (settings_of(ResourceType.BROKER, name) for name in self._names)
        return with_allowed(self._broker.config, of_all, own)


def cordoned_ids(logs: LogManager) -> list[uuid.UUID]:
    """Return the ids of the online log directories that get no new partitions."""
    cordoned = [directory for directory in logs.online if directory.path in logs.cordoned]
    return [directory.id for directory in cordoned if directory.id is not None]


def _secure(listener: Listener, config: BrokerConfig) -> None:
    """Keys are read again. What cannot be used leaves things as they are."""
    endpoint = listener.endpoint
    try:
        listener.security = ListenerSecurity.of(config, endpoint.name, endpoint.protocol)
    except ConfigError as error:
        _log.error("Listener %s lets in clients as before: %s", endpoint.name, error)


def with_allowed(config: BrokerConfig, of_all: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
    """``config`` with what is allowed of the changes for all brokers and of those for this one."""
    try:
        return config.with_layers(of_all, own)
    except ConfigError:
        pass
    allowed_of_all = {key: text for key, text in of_all.items() if _is_allowed(config, {key: text}, {})}
    allowed_own = {key: text for key, text in own.items() if _is_allowed(config, {}, {key: text})}
    if _is_allowed(config, allowed_of_all, allowed_own):
        return config.with_layers(allowed_of_all, allowed_own)
    return config.with_layers({}, {})


def _is_allowed(config: BrokerConfig, of_all: Mapping[str, str], own: Mapping[str, str]) -> bool:
    try:
        config.with_layers(of_all, own)
    except ConfigError as error:
        _log.error("Settings of the cluster's metadata are left out: %s", error)
        return False
    return True
