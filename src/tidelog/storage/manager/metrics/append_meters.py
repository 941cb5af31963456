"""Meters of the appends to logs: refused ones by reason, and converted records.

A log counts in plain integers under its lock. ``collect`` adds the increase since its last call to the meters, so their
rates are right if it runs every few seconds. Each meter exists for all topics together. Some exist per topic as well,
from the topic's first count until the topic has no log here. Thread rule: any thread. Source: Kafka's
``BrokerTopicMetrics``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tidelog.model import Refusal
from tidelog.runtime.metrics import MetricFamily, MetricRegistry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_counters import LogCounters
from tidelog.storage.segment.file_names import PartitionDirectoryName

_TOPICS = MetricFamily("kafka.server", "BrokerTopicMetrics")


class _Counts(NamedTuple):
    """The counts of one log, in the order of ``DESCRIPTIONS``."""

    bytes_rejected: int
    conversions: int
    invalid_crc: int
    invalid_magic: int
    invalid_offset: int
    no_key: int

    @classmethod
    def of(cls, counters: LogCounters) -> _Counts:
        refused = counters.refused
        return cls(
            counters.bytes_rejected,
            counters.converted_records,
            counters.invalid_crc,
            refused[Refusal.MAGIC],
            refused[Refusal.OFFSET] + refused[Refusal.SEQUENCE],
            refused[Refusal.NO_KEY],
        )


DESCRIPTIONS = (
    _TOPICS.meter(
        "BytesRejectedPerSec",
        "bytes",
        "Bytes of appends refused because a batch is larger than `max.message.bytes`.",
        "topic",
    ),
    _TOPICS.meter(
        "ProduceMessageConversionsPerSec",
        "records",
        "Records rewritten into new batches because the topic requires another codec or message format.",
        "topic",
    ),
    _TOPICS.meter("InvalidMessageCrcRecordsPerSec", "appends", "Appends refused because a batch is damaged."),
    _TOPICS.meter(
        "InvalidMagicNumberRecordsPerSec", "records", "Records refused because their format differs from their batch's."
    ),
    _TOPICS.meter(
        "InvalidOffsetOrSequenceRecordsPerSec",
        "records",
        "Records refused because offsets or sequence numbers do not ascend.",
    ),
    _TOPICS.meter(
        "NoKeyCompactedTopicRecordsPerSec", "records", "Records refused because a compacted topic requires a key."
    ),
)
_NOTHING = _Counts(*[0] * len(DESCRIPTIONS))


class _LastCounts(NamedTuple):
    topic: str
    """The topic when the log was first seen, because the directory gets another name when the log is deleted."""
    counts: _Counts


class AppendMeters:
    def __init__(self, registry: MetricRegistry) -> None:
        """The meters of all topics together exist from the start, as in Kafka."""
        self._registry = registry
        self._lock = threading.Lock()
        self._seen: WeakKeyDictionary[PartitionLog, _LastCounts] = WeakKeyDictionary()
        self._of_all = tuple(registry.meter(one.named(*[""] * len(one.tags))) for one in DESCRIPTIONS)
        self._topics: set[str] = set()

    def collect(self, logs: Iterable[PartitionLog]) -> None:
        """Update the meters from ``logs``, which are all existing and recently deleted logs."""
        with self._lock:
            topics = set()
            for log in logs:
                counts = _Counts.of(log.counters)
                seen = self._seen.get(log) or _LastCounts(_topic_of(log), _NOTHING)
                topics.add(seen.topic)
                if counts != seen.counts:
                    self._mark(seen.topic, [count - before for count, before in zip(counts, seen.counts, strict=True)])
                self._seen[log] = _LastCounts(seen.topic, counts)
            self._forget(self._topics - topics)

    def close(self) -> None:
        """Remove the meters from the registry."""
        with self._lock:
            self._forget(set(self._topics))
            for one in DESCRIPTIONS:
                self._registry.remove(one.named(*[""] * len(one.tags)))

    def _mark(self, topic: str, added: list[int]) -> None:
        for description, of_all, count in zip(DESCRIPTIONS, self._of_all, added, strict=True):
            if count:
                of_all.mark(count)
                if description.tags:
                    self._registry.meter(description.named(topic)).mark(count)
                    self._topics.add(topic)

    def _forget(self, topics: set[str]) -> None:
        for topic in topics:
            for one in DESCRIPTIONS:
                if one.tags:
                    self._registry.remove(one.named(topic))
        self._topics -= topics


def _topic_of(log: PartitionLog) -> str:
    return PartitionDirectoryName.parse(log.directory.name).topic_partition.topic
