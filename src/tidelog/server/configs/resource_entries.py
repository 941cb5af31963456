"""The settings of topics, groups and subscriptions to clients' metrics, as a client is told of them. Pure.

==================  ===================================================================================================
topic               what it sets (TOPIC), then the broker's key of its default and all that says something of that
group               what it sets (GROUP), then the broker's key of its default and all that says something of that; of
                    a key without one, its own default
client metrics      what it sets (CLIENT_METRICS), or nothing
==================  ===================================================================================================

In the order of their names. Source: Kafka's ``ConfigHelper``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.resources.client_subscription import CLIENT_METRICS_KEYS
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.resources.group_settings import GroupSettings, broker_key_of
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import parse_topic_settings
from tidelog.config.value_text import Value
from tidelog.server.configs.broker_entries import broker_synonyms_of
from tidelog.server.configs.config_entry import ConfigEntry, ConfigSource, ConfigSynonym, own_synonyms, text_of


def topic_entries(texts: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """``texts``: what was set for the topic."""
    values: dict[str, Value | None] = {name: key.default for name, key in TOPIC_KEYS.items()}
    values.update(broker.topic_defaults())
    values.update(parse_topic_settings(texts, ignore_unknown=True))
    shown = {name for name, key in TOPIC_KEYS.items() if not key.internal} | set(texts)
    return [_topic_entry(name, text_of(values.get(name)), texts, broker) for name in sorted(shown)]


def group_entries(texts: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """``texts``: what was set for the group."""
    values = GroupSettings.described(texts, broker).values
    shown = {name for name, key in GROUP_KEYS.items() if not key.internal} | set(texts)
    return [_group_entry(name, text_of(values[name]), texts, broker) for name in sorted(shown)]


def client_metrics_entries(texts: Mapping[str, str]) -> list[ConfigEntry]:
    """``texts``: what was set for the subscription."""
    entries = []
    for name, key in sorted(CLIENT_METRICS_KEYS.items()):
        value = text_of(key.parse(texts[name]) if name in texts else key.default)
        synonyms = own_synonyms(texts, name, value, ConfigSource.CLIENT_METRICS)
        entries.append(ConfigEntry(name=name, key=key, value=value, synonyms=synonyms))
    return entries


def _topic_entry(name: str, value: str | None, texts: Mapping[str, str], broker: BrokerConfig) -> ConfigEntry:
    synonyms = own_synonyms(texts, name, value, ConfigSource.TOPIC)
    if name in TOPIC_SYNONYMS:
        synonyms += broker_synonyms_of(TOPIC_SYNONYMS[name][0].name, broker)
    return ConfigEntry(name=name, key=TOPIC_KEYS.get(name), value=value, synonyms=synonyms)


def _group_entry(name: str, value: str | None, texts: Mapping[str, str], broker: BrokerConfig) -> ConfigEntry:
    synonyms = own_synonyms(texts, name, value, ConfigSource.GROUP)
    brokers = broker_key_of(name)
    if brokers is not None:
        synonyms += broker_synonyms_of(brokers, broker)
    elif not synonyms:
        synonyms = (ConfigSynonym(name, value, ConfigSource.DEFAULT),)
    return ConfigEntry(name=name, key=GROUP_KEYS[name], value=value, synonyms=synonyms)
