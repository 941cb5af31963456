"""The settings of a topic from log directories and options, each with its source.

A later source wins over an earlier one:

1. Kafka's default; for internal topics the value with which brokers create them
2. broker settings of a properties file (``log.retention.hours``, ...)
3. dynamic broker settings in the cluster metadata: of all brokers, then of this one
4. the topic's settings in the cluster metadata
5. topic settings of the properties file (``retention.ms``, ...)
6. those of the command line: for every topic, then for this one

Broker settings are merged before they are read: of ``log.retention.ms``, ``.minutes`` and ``.hours`` the finest unit
wins, whatever its source. The metadata log is the exception: no setting applies to it, because snapshots decide its log
start. All functions are pure except ``read_setting_sources``, which only reads. Source: Kafka's ``KafkaConfig``,
``ServerTopicConfigSynonyms``, ``KafkaMetadataLog``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import topic_texts
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC, COMPACTED_TOPICS
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata, read_topic_metadata

DEFAULT_ORIGIN = "default"
TOPIC_ORIGIN = "topic"
COMMAND_LINE_ORIGIN = "--config"
TOPIC_CONFIG_ORIGIN = "--topic-config"

_PRODUCER_KEY = "producer.id.expiration.ms"
_INTERNAL_ORIGIN = "default of this topic"
_METADATA_ORIGIN = "KRaft keeps it by snapshots"
_CHECKED = (COMMAND_LINE_ORIGIN, TOPIC_CONFIG_ORIGIN)
"""An unknown key from these sources is an error."""
_DEFAULT: Final = LogConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedConfig:
    """The settings of one topic. ``origins`` names the source of each setting in a word or two, by its key."""

    config: LogConfig
    origins: Mapping[str, str]


class SourcedText(NamedTuple):
    """A setting as its source has it."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSources:
    """The sources of settings. ``file_name`` stands for the properties file in origins."""

    metadata: TopicMetadata = field(default_factory=TopicMetadata)
    metadata_from: Path | str | None = None
    """The log directory whose metadata log was read, a name for another source, or None if there was none."""
    node_id: int | None = None
    file: Mapping[str, str] = field(default_factory=dict)
    file_name: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The overrides for every topic. ``topic_overrides`` holds those for one topic, by its name."""
    topic_overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def of_topic(self, topic: str) -> SourcedConfig:
        """Return a topic's settings. Raise ConfigError for an invalid value, or an unknown key in an override."""
        if topic == CLUSTER_METADATA_TOPIC:
            config = LogConfig(retention_ms=-1, retention_bytes=-1)
            return SourcedConfig(config=config, origins=dict.fromkeys(TOPIC_KEYS, _METADATA_ORIGIN))
        config = _DEFAULT
        origins = dict.fromkeys(TOPIC_KEYS, DEFAULT_ORIGIN)
        for properties, origin in self._layers(topic):
            if not properties:  # most are empty, and a page asks for the settings of many topics
                continue
            config = config.with_properties(properties, ignore_unknown=origin not in _CHECKED)
            origins.update(dict.fromkeys(properties.keys() & origins.keys(), origin))
        return SourcedConfig(config=config, origins=origins)

    def texts_of_topic(self, topic: str) -> dict[str, SourcedText]:
        """Return the settings with a source other than Kafka's default, by key, unchecked and also without a known key.
        The metadata log has none. Raise ConfigError for a broker setting that cannot be converted."""
        found: dict[str, SourcedText] = {}
        if topic != CLUSTER_METADATA_TOPIC:
            for properties, origin in self._layers(topic):
                found.update({key: SourcedText(text, origin) for key, text in properties.items()})
        return found

    def _layers(self, topic: str) -> Iterable[tuple[Mapping[str, str], str]]:
        """Yield the sources in the sequence of the module's list, in topic keys."""
        yield {"cleanup.policy": "compact"} if topic in COMPACTED_TOPICS else {}, _INTERNAL_ORIGIN
        for key, value, origin in self._broker_settings():
            yield {key: value}, origin
        yield self.metadata.topic_settings.get(topic, {}), TOPIC_ORIGIN
        yield {key: text for key, text in self.file.items() if key in TOPIC_KEYS}, self.file_name
        yield self.overrides, COMMAND_LINE_ORIGIN
        yield self.topic_overrides.get(topic, {}), TOPIC_CONFIG_ORIGIN

    def _broker_settings(self) -> Iterable[tuple[str, str, str]]:
        """Yield the broker settings as topic settings: key, value, origin."""
        merged: dict[str, tuple[str, str]] = {}
        dynamic = self.metadata.broker_settings
        for properties, origin in (
            (self.file, self.file_name),
            (dynamic.get("", {}), "all brokers"),
            (dynamic.get(str(self.node_id), {}), f"broker {self.node_id}"),
        ):
            merged.update({key: (value, origin) for key, value in properties.items()})
        found = topic_texts({key: text for key, (text, _) in merged.items()})
        for key, (text, broker_key) in found.items():
            yield key, text, merged[broker_key][1]
        if _PRODUCER_KEY in merged:
            yield _PRODUCER_KEY, *merged[_PRODUCER_KEY]


def read_setting_sources(
    fs: FileSystem,
    paths: Iterable[Path],
    *,
    file: Mapping[str, str] | None = None,
    file_name: str = "",
    overrides: Mapping[str, str] | None = None,
    topic_overrides: Mapping[str, Mapping[str, str]] | None = None,
    elsewhere: TopicMetadata | None = None,
) -> dict[Path, SettingSources]:
    """Return the sources for each log directory.

    A directory without a metadata log uses that of another given directory of the same broker (``meta.properties``), or
    else the metadata that was found ``elsewhere``, in ZooKeeper.
    """
    metas = {path: MetaProperties.read_or_none(fs, path / META_PROPERTIES_FILE) for path in paths}
    metadata = {path: read_topic_metadata(fs, path) for path in metas if fs.exists(path / METADATA_DIRECTORY)}
    sources = {}
    for path, meta in metas.items():
        node = None if meta is None else (meta.cluster_id, meta.node_id)
        beside = (other for other in metadata if node is not None and _node(metas[other]) == node)
        found = path if path in metadata else next(beside, None)
        sources[path] = SettingSources(
            metadata=(elsewhere or TopicMetadata()) if found is None else metadata[found],
            metadata_from="ZooKeeper" if found is None and elsewhere is not None else found,
            node_id=None if meta is None else meta.node_id,
            file=file or {},
            file_name=file_name,
            overrides=overrides or {},
            topic_overrides=topic_overrides or {},
        )
    return sources


def _node(meta: MetaProperties | None) -> tuple[str | None, int | None] | None:
    return None if meta is None else (meta.cluster_id, meta.node_id)
