"""The configs of a broker, and of all brokers, in the form of DescribeConfigs. Pure.

===========================  =========================================================================================
configs of one broker        every key that is not internal, and every set name that is known or looks like a key
configs of all brokers       only the dynamic defaults, which were set for all brokers at run time
synonyms                     each name with the same meaning, in each layer that sets it: this broker's dynamic
                             configs, the dynamic defaults, the properties file, the defaults
first synonym                the key itself, in its first layer; synonyms before that are omitted. A listener's key has
                             the broker's key as synonym, but not the other way round
===========================  =========================================================================================

Source: Kafka's ``ConfigHelper``, ``DynamicBrokerConfig.brokerConfigSynonyms``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import dropwhile

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS, PLUG_IN_KEYS, ZOOKEEPER_BROKER_KEYS, broker_key, looks_like_key
from tidelog.config.key import Key
from tidelog.config.quota_keys import REPLICATION_RATES
from tidelog.config.synonyms import time_synonyms
from tidelog.server.configs.config_entry import ConfigEntry, ConfigSource, ConfigSynonym, is_sensitive, text_of

_LISTENER_PARTS = 3
"""The number of parts in ``listener.name.NAME.``"""
_IDS = ("node.id", "broker.id")


def broker_entries(broker: BrokerConfig) -> list[ConfigEntry]:
    """Return the configs of one broker, sorted by name."""
    shown = {name for name, key in broker.keys.items() if not key.internal and name not in PLUG_IN_KEYS}
    told = {name for name in broker.settings if broker_key(name, broker.keys) is not None or looks_like_key(name)}
    return [_entry(name, broker) for name in sorted(shown | told)]


def default_entries(broker: BrokerConfig) -> list[ConfigEntry]:
    """Return the configs of all brokers, sorted by name."""
    return [_default_entry(name, broker) for name in sorted(broker.dynamic_defaults)]


def broker_synonyms_of(name: str, broker: BrokerConfig) -> tuple[ConfigSynonym, ...]:
    """Return the synonyms of a broker's key, by the module's table."""
    hidden = is_sensitive(_public_key_or_none(name, broker))
    found = (
        ConfigSynonym(synonym, None if hidden else layer[synonym], source)
        for layer, source in _layers(broker)
        for synonym in _names(name)
        if synonym in layer
    )
    return tuple(dropwhile(lambda synonym: synonym.name != name, found))


def _entry(name: str, broker: BrokerConfig) -> ConfigEntry:
    key = _public_key_or_none(name, broker)
    if name in broker.keys:
        value = text_of(broker.node_id if name in _IDS and broker.node_id is not None else broker.shown(name))
    else:
        value = broker.settings[name].text
    return ConfigEntry(
        name=name,
        key=key,
        value=value,
        synonyms=broker_synonyms_of(name, broker),
        is_read_only=_is_read_only(name, broker),
    )


def _default_entry(name: str, broker: BrokerConfig) -> ConfigEntry:
    synonyms = broker_synonyms_of(name, broker)
    return ConfigEntry(
        name=name,
        key=_public_key_or_none(name, broker),
        value=broker.dynamic_defaults[name].text,
        synonyms=tuple(synonym for synonym in synonyms if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER),
        is_read_only=_is_read_only(name, broker),
    )


def _is_read_only(name: str, broker: BrokerConfig) -> bool:
    """Return True for a key that is not dynamic. As in Kafka, a listener's key counts too, although it is."""
    key = broker.keys.get(name) or REPLICATION_RATES.get(name)
    return key is None or not key.is_dynamic


def _public_key_or_none(name: str, broker: BrokerConfig) -> Key | None:
    """Return the key, or None for a plug-in's key: then the value counts as sensitive."""
    return None if name in PLUG_IN_KEYS else broker_key(name, broker.keys)


def _layers(broker: BrokerConfig) -> Iterator[tuple[Mapping[str, str], ConfigSource]]:
    """Yield the layers, the strongest first."""
    yield {name: setting.text for name, setting in broker.dynamic.items()}, ConfigSource.DYNAMIC_BROKER
    yield {name: setting.text for name, setting in broker.dynamic_defaults.items()}, ConfigSource.DYNAMIC_DEFAULT_BROKER
    yield _static_texts(broker), ConfigSource.STATIC_BROKER
    yield _ZOOKEEPER_DEFAULTS if broker.uses_zookeeper else _DEFAULTS, ConfigSource.DEFAULT


def _static_texts(broker: BrokerConfig) -> dict[str, str]:
    """Return the properties file's values. As in Kafka, either name of the broker's id stands for both."""
    texts = {name: setting.text for name, setting in broker.static.items()}
    number = next((texts[name] for name in _IDS if name in texts), None)
    return texts if number is None else dict.fromkeys(_IDS, number) | texts


def _default_texts(keys: Mapping[str, Key]) -> dict[str, str]:
    return {name: key.default_text for name, key in keys.items() if key.default is not None}


_DEFAULTS = _default_texts(BROKER_KEYS)
_ZOOKEEPER_DEFAULTS = _default_texts(ZOOKEEPER_BROKER_KEYS)


def _names(name: str) -> tuple[str, ...]:
    parts = name.split(".", _LISTENER_PARTS)
    if name.startswith("listener.name.") and len(parts) > _LISTENER_PARTS:
        return name, parts[_LISTENER_PARTS]
    return time_synonyms(name)
