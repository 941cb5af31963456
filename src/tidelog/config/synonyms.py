"""Keys that say the same thing, by other names or in other units. Pure.

A topic setting has broker keys for its default; of several the first that is set decides, and what they count in may
differ. Source: Kafka's ``ServerTopicConfigSynonyms``, ``DynamicBrokerConfig.brokerConfigSynonyms``, and the getters
of ``KafkaConfig`` (``logRetentionTimeMillis`` and its like).
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
    """A broker key, and how many of the topic setting's units one of its own is."""

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
"""The broker keys of a topic setting's default, the one that decides first."""

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
    """As ``broker_synonyms``, of times in several units alone: what Kafka tells its clients of."""
    return _TIMES.get(name, (name,))


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker keys of which the first that is set decides what ``name`` is about; ``name`` alone where it has none.

    ``log.flush.scheduler.interval.ms`` is a key of its own: it lends its value, and takes none.
    """
    return _GROUPS.get(name, (name,))


def deciding(names: Iterable[Synonym], texts: Mapping[str, object]) -> Synonym | None:
    """The first of ``names`` that is set in ``texts``."""
    return next((synonym for synonym in names if synonym.name in texts), None)


def in_topic_units(topic_key: str, synonym: Synonym, value: Value) -> Value:
    """A broker key's value as the topic setting's: a negative retention, in any unit, sets no limit."""
    if topic_key == "retention.ms":
        assert isinstance(value, int), synonym
        return -1 if value < 0 else value * synonym.factor
    if synonym.factor == 1:
        return value
    assert isinstance(value, int), synonym
    return value * synonym.factor
