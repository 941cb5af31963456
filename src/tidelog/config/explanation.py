"""Explanations of keys: the value, its origin, and the other keys that can decide it.

A name may be a broker's key, a topic's setting, or both (``compression.type``), which gives two explanations. The
functions are pure.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import listener_key
from tidelog.config.key import Key
from tidelog.config.origin import Origin, OriginKind
from tidelog.config.synonyms import TOPIC_SYNONYMS, broker_synonyms
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.value_text import Value


class KeyKind(enum.StrEnum):
    BROKER = "broker"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An explained key. ``value`` is None if it is not set.

    ``origin`` is the value's origin, or for an unset key the origin of the key that decides instead. ``synonyms`` are
    the broker's keys that decide, by priority. For a topic's setting they decide its default.
    """

    name: str
    kind: KeyKind
    key: Key
    value: Value | None
    origin: Origin
    synonyms: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """True if the value is not Kafka's default."""
        return self.value != self.key.default


def explain(name: str, broker: BrokerConfig, topic: TopicSettings) -> list[Explanation]:
    """Return the explanations of a key, none for an unknown name. ``topic`` must have been made over ``broker``."""
    found = []
    key = broker.keys.get(name)
    if key is not None:
        found.append(_explain_broker_key(key, broker))
    elif (base := listener_key(name)) is not None:
        found.append(_explain_listener_key(name, base, broker))
    if name in broker.topic_keys:
        found.append(_explain_topic_key(broker.topic_keys[name], broker, topic))
    return found


def explain_all(broker: BrokerConfig, topic: TopicSettings) -> Iterator[Explanation]:
    """Yield the broker's keys, then the topic's, each sorted by name."""
    for name in sorted(broker.keys):
        yield _explain_broker_key(broker.keys[name], broker)
    for name in sorted(broker.topic_keys):
        yield _explain_topic_key(broker.topic_keys[name], broker, topic)


def _explain_broker_key(key: Key, broker: BrokerConfig) -> Explanation:
    value = broker.shown(key.name)
    decided_by = key.name if value is not None else broker.decided_by(key.name)
    return Explanation(
        name=key.name,
        kind=KeyKind.BROKER,
        key=key,
        value=value,
        origin=broker.origin(decided_by),
        synonyms=broker_synonyms(key.name),
    )


def _explain_listener_key(name: str, key: Key, broker: BrokerConfig) -> Explanation:
    setting = broker.settings.get(name)
    return Explanation(
        name=name,
        kind=KeyKind.BROKER,
        key=key,
        value=broker.shown(key.name) if setting is None else key.parse(setting.text),
        origin=broker.origin(key.name) if setting is None else setting.origin,
        synonyms=(name, key.name),
    )


def _explain_topic_key(key: Key, broker: BrokerConfig, topic: TopicSettings) -> Explanation:
    default = broker.topic_default(key.name)
    if key.name in topic.overrides:
        origin = Origin(kind=OriginKind.TOPIC, key=key.name)
    elif default is not None:
        origin = default[1]
    else:
        origin = Origin(kind=OriginKind.DEFAULT, key=key.name)
    return Explanation(
        name=key.name,
        kind=KeyKind.TOPIC,
        key=key,
        value=topic[key.name],
        origin=origin,
        synonyms=tuple(synonym.name for synonym in TOPIC_SYNONYMS.get(key.name, ())),
    )
