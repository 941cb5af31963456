"""The configs of topics, groups and client metrics, in the form of DescribeConfigs. Pure.

==================  ===================================================================================================
resource            synonyms of its keys
==================  ===================================================================================================
topic               its own config (TOPIC), then the synonyms of the broker's key that has the default
group               the same with GROUP; a key without a broker's key has its own default
client metrics      its own config (CLIENT_METRICS), if set
==================  ===================================================================================================

The configs are sorted by name. Source: Kafka's ``ConfigHelper``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.key import Key
from tidelog.config.resources.client_subscription import CLIENT_METRICS_KEYS
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.resources.group_settings import GroupSettings, broker_key_of
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_settings import parse_topic_settings
from tidelog.config.value_text import Value
from tidelog.server.configs.broker_entries import broker_synonyms_of
from tidelog.server.configs.config_entry import ConfigEntry, ConfigSource, ConfigSynonym, own_synonyms, text_of


def topic_entries(texts: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """Return the configs of a topic. ``texts`` has its own values."""
    keys = broker.topic_keys
    values: dict[str, Value | None] = {name: key.default for name, key in keys.items()}
    values.update(broker.topic_defaults())
    values.update(parse_topic_settings(texts, ignore_unknown=True, keys=keys))
    shown = {name for name, key in keys.items() if not key.internal} | set(texts)
    return [_topic_entry(name, keys.get(name), text_of(values.get(name)), texts, broker) for name in sorted(shown)]


def group_entries(texts: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """Return the configs of a group. ``texts`` has its own values."""
    values = GroupSettings.described(texts, broker).values
    shown = {name for name, key in GROUP_KEYS.items() if not key.internal} | set(texts)
    return [_group_entry(name, text_of(values[name]), texts, broker) for name in sorted(shown)]


def client_metrics_entries(texts: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the configs of a subscription. ``texts`` has its own values."""
    entries = []
    for name, key in sorted(CLIENT_METRICS_KEYS.items()):
        value = text_of(key.parse(texts[name]) if name in texts else key.default)
        synonyms = own_synonyms(texts, name, value, ConfigSource.CLIENT_METRICS)
        entries.append(ConfigEntry(name=name, key=key, value=value, synonyms=synonyms))
    return entries


def _topic_entry(
    name: str, key: Key | None, value: str | None, texts: Mapping[str, str], broker: BrokerConfig
) -> ConfigEntry:
    synonyms = own_synonyms(texts, name, value, ConfigSource.TOPIC)
    if name in TOPIC_SYNONYMS:
        synonyms += broker_synonyms_of(TOPIC_SYNONYMS[name][0].name, broker)
    return ConfigEntry(name=name, key=key, value=value, synonyms=synonyms)


def _group_entry(name: str, value: str | None, texts: Mapping[str, str], broker: BrokerConfig) -> ConfigEntry:
    synonyms = own_synonyms(texts, name, value, ConfigSource.GROUP)
    brokers = broker_key_of(name)
    if brokers is not None:
        synonyms += broker_synonyms_of(brokers, broker)
    elif not synonyms:
        synonyms = (ConfigSynonym(name, value, ConfigSource.DEFAULT),)
    return ConfigEntry(name=name, key=GROUP_KEYS[name], value=value, synonyms=synonyms)
