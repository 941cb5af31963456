"""Settings that change while the broker runs: the way from the cluster metadata to the broker's parts.

=============================  =======================================================================================
change                         effect
=============================  =======================================================================================
this broker, or all brokers    the broker's configuration is replaced, with the topic defaults, the cleaner, the
                               scheduler's threads, the connection limits, the security of listeners and of links to
                               other nodes, and the cordoned log directories, which are reported to the controller too
metadata.version               the cordoned log directories are reported again: the old version may lack the field
a topic                        its logs get the new settings
others                         nothing here: their users read the metadata image
=============================  =======================================================================================

An invalid value in the metadata is skipped and logged. Another release, for example, may have allowed it. A crash loses
nothing: the settings are computed from the metadata again. Thread rule: the event loop only; logs and cleaner are
updated in a background thread. Source: Kafka's ``DynamicBrokerConfig``, ``DynamicConfigPublisher``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.runtime.executor import InThread
from tidelog.runtime.scheduler import Scheduler
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.configs.stored_passwords import decoded_texts
from tidelog.server.metadata.broker_metadata import BrokerMetadata
from tidelog.server.metadata.image import METADATA_VERSION, ConfigResource, MetadataChange
from tidelog.server.network.limits import ConnectionCounts, NetworkLimits
from tidelog.server.network.listener import Listener
from tidelog.server.security.listener_security import ListenerSecurity
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager

_log = logging.getLogger(__name__)


class Configured(Protocol):
    """The part of the broker that the dynamic settings read and change."""

    config: BrokerConfig

    @property
    def node_id(self) -> int: ...

    @property
    def metadata(self) -> BrokerMetadata: ...

    @property
    def logs(self) -> LogManager: ...

    @property
    def scheduler(self) -> Scheduler: ...

    @property
    def connection_counts(self) -> ConnectionCounts: ...

    @property
    def listeners(self) -> Sequence[Listener]: ...

    @property
    def in_thread(self) -> InThread: ...

    def secure_links(self) -> None:
        """Use the current security for new connections to other nodes. Raise ConfigError if it is not valid."""
        ...


class DynamicSettings:
    def __init__(self, broker: Configured) -> None:
        self._broker = broker

    def on_change(self, change: MetadataChange) -> Awaitable[None] | None:
        """Apply a change of the metadata; a listener of ``BrokerMetadata.subscribe``."""
        topics = [resource.name for resource in change.configs if resource.type is ResourceType.TOPIC]
        if not change.configs.isdisjoint(ConfigResource(ResourceType.BROKER, name) for name in self._names):
            return self._apply_and_report(topics)
        if METADATA_VERSION in change.features:
            return self._tell_topics_and_report(topics)
        return self._broker.in_thread(self._tell_topics, topics) if topics else None

    async def apply(self, topics: Sequence[str] = ()) -> None:
        """Compute the broker's configuration from the metadata, and apply it to all parts and to ``topics``."""
        before, after = self._broker.config, self._configured()
        self._broker.config = after
        await self._limit_connections(after)
        self._broker.scheduler.set_threads(after.number("background.threads"))
        for listener in self._broker.listeners:
            _secure(listener, after)
        self._secure_links()
        await self._broker.in_thread(self._tell, before, after)
        await self._broker.in_thread(self._tell_topics, topics)

    def _secure_links(self) -> None:
        """Read the keys of connections to other nodes again. If they are unusable, keep the current security."""
        try:
            self._broker.secure_links()
        except ConfigError as error:
            _log.error(
                "The new security settings of connections to other nodes are invalid, so the old ones stay: %s", error
            )

    async def _apply_and_report(self, topics: Sequence[str]) -> None:
        await self.apply(topics)
        await self._report_cordoned()

    async def _tell_topics_and_report(self, topics: Sequence[str]) -> None:
        await self._broker.in_thread(self._tell_topics, topics)
        await self._report_cordoned()

    async def _report_cordoned(self) -> None:
        await self._broker.metadata.report_cordoned_directories(cordoned_ids(self._broker.logs))

    async def _limit_connections(self, config: BrokerConfig) -> None:
        """Set new connection limits. Host names are resolved in a background thread, because that may be slow."""
        try:
            limits = await self._broker.in_thread(NetworkLimits.of(config).with_resolved_hosts)
        except ConfigError as error:
            _log.error("The new connection limits are invalid, so the old ones stay: %s", error)
        else:
            self._broker.connection_counts.change(limits)

    def _tell(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Update logs and cleaner in a background thread: it may wait for a busy log or for cleaner threads."""
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
        """The names of the broker resources that apply here: all brokers, and this one."""
        return "", str(self._broker.node_id)

    def _configured(self) -> BrokerConfig:
        settings_of = self._broker.metadata.image.settings_of
        config = self._broker.config
        cluster_wide, own = (settings_of(ResourceType.BROKER, name) for name in self._names)
        return with_allowed(config, cluster_wide, decoded_texts(config, own))


def cordoned_ids(logs: LogManager) -> list[uuid.UUID]:
    """Return the ids of the online log directories that get no new partitions."""
    cordoned = [directory for directory in logs.online if directory.path in logs.cordoned]
    return [directory.id for directory in cordoned if directory.id is not None]


def _secure(listener: Listener, config: BrokerConfig) -> None:
    """Read the listener's keys again. If they are unusable, keep the current security and log the error."""
    endpoint = listener.endpoint
    try:
        listener.security = ListenerSecurity.of(config, endpoint.name, endpoint.protocol)
    except ConfigError as error:
        _log.error(
            "The new security settings of listener %s are invalid, so the old ones stay: %s", endpoint.name, error
        )


def with_allowed(config: BrokerConfig, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
    """Return ``config`` with the valid changes for all brokers and for this one."""
    try:
        return config.with_dynamic_layers(cluster_wide, own)
    except ConfigError:
        pass
    allowed_cluster_wide = {key: text for key, text in cluster_wide.items() if _is_allowed(config, {key: text}, {})}
    allowed_own = {key: text for key, text in own.items() if _is_allowed(config, {}, {key: text})}
    if _is_allowed(config, allowed_cluster_wide, allowed_own):
        return config.with_dynamic_layers(allowed_cluster_wide, allowed_own)
    return config.with_dynamic_layers({}, {})


def _is_allowed(config: BrokerConfig, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> bool:
    try:
        config.with_dynamic_layers(cluster_wide, own)
    except ConfigError as error:
        _log.error("Invalid settings in the cluster metadata are ignored: %s", error)
        return False
    return True
