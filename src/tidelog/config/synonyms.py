"""Keys with the same meaning under other names or in other units.

A topic setting has one or more broker keys for its default. The first key that is set decides, and their units may
differ. The functions are pure. Source: Kafka's ``ServerTopicConfigSynonyms``,
``DynamicBrokerConfig.brokerConfigSynonyms``, and the getters of ``KafkaConfig`` (such as ``logRetentionTimeMillis``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.config.value_text import Value

_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS

_SAME_NAME = (
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "max.decompressed.message.bytes",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key, and the number of the topic setting's units in one of its own."""

    name: str
    factor: int = 1


def _one(name: str) -> tuple[Synonym, ...]:
    return (Synonym(name),)


TOPIC_SYNONYMS: Mapping[str, tuple[Synonym, ...]] = {
    "cleanup.policy": _one("log.cleanup.policy"),
    "delete.retention.ms": _one("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _one("log.segment.delete.delay.ms"),
    "flush.messages": _one("log.flush.interval.messages"),
    "flush.ms": (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": _one("log.index.interval.bytes"),
    "local.retention.bytes": _one("log.local.retention.bytes"),
    "local.retention.ms": _one("log.local.retention.ms"),
    "max.compaction.lag.ms": _one("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _one("message.max.bytes"),
    "message.timestamp.after.max.ms": _one("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _one("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _one("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _one("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _one("log.cleaner.min.compaction.lag.ms"),
    "preallocate": _one("log.preallocate"),
    "remote.copy.lag.bytes": _one("log.remote.copy.lag.bytes"),
    "remote.copy.lag.ms": _one("log.remote.copy.lag.ms"),
    "retention.bytes": _one("log.retention.bytes"),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": _one("log.segment.bytes"),
    "segment.index.bytes": _one("log.index.size.max.bytes"),
    "segment.jitter.ms": (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (Synonym("log.roll.ms"), Synonym("log.roll.hours", _HOUR_MS)),
} | {name: _one(name) for name in _SAME_NAME}
"""The broker keys of each topic setting's default, by priority."""

_TIMES: Mapping[str, tuple[str, ...]] = {
    synonym.name: tuple(other.name for other in synonyms)
    for synonyms in TOPIC_SYNONYMS.values()
    for synonym in synonyms
    if len(synonyms) > 1 and synonym.name != "log.flush.scheduler.interval.ms"
}

_GROUPS: Mapping[str, tuple[str, ...]] = {
    **_TIMES,
    "log.dir": ("log.dirs", "log.dir"),
    "log.dirs": ("log.dirs", "log.dir"),
    "broker.id": ("node.id", "broker.id"),
    "node.id": ("node.id", "broker.id"),
}


def time_synonyms(name: str) -> tuple[str, ...]:
    """Return the synonyms among times in several units. Kafka reports only these to clients."""
    return _TIMES.get(name, (name,))


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the broker keys for ``name`` by priority (the first one set decides), by default ``name`` alone.

    ``log.flush.scheduler.interval.ms`` is a fallback for another key, but has no synonyms itself.
    """
    return _GROUPS.get(name, (name,))


def first_set(names: Iterable[Synonym], texts: Mapping[str, object]) -> Synonym | None:
    """Return the first of ``names`` that ``texts`` sets."""
    return next((synonym for synonym in names if synonym.name in texts), None)


def in_topic_units(topic_key: str, synonym: Synonym, value: Value) -> Value:
    """Convert a broker key's value to the topic setting's units. A negative retention becomes -1, no limit."""
    if topic_key == "retention.ms":
        assert isinstance(value, int), synonym
        return -1 if value < 0 else value * synonym.factor
    if synonym.factor == 1:
        return value
    assert isinstance(value, int), synonym
    return value * synonym.factor
