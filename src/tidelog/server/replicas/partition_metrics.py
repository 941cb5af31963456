"""The metrics of each partition of this broker, under Kafka's names.

A follower reports 0 for everything that only the leader knows. Thread rule: any thread may make a report; it reads the
state of that moment. Source: Kafka's ``Partition``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidelog.model import TidelogError
from tidelog.runtime.metrics import MetricFamily, Sample
from tidelog.server.replicas.partition import Partition

_PARTITION = MetricFamily("kafka.cluster", "Partition")
_TAGS = ("topic", "partition")

UNDER_REPLICATED = _PARTITION.gauge(
    "UnderReplicated", "0 or 1", "1 if this broker leads the partition and replicas are out of sync.", *_TAGS
)
IN_SYNC = _PARTITION.gauge("InSyncReplicasCount", "replicas", "In-sync replicas of a led partition.", *_TAGS)
UNDER_MIN_ISR = _PARTITION.gauge(
    "UnderMinIsr", "0 or 1", "1 if a led partition has fewer in-sync replicas than `min.insync.replicas`.", *_TAGS
)
AT_MIN_ISR = _PARTITION.gauge(
    "AtMinIsr", "0 or 1", "1 if a led partition has exactly `min.insync.replicas` in-sync replicas.", *_TAGS
)
REPLICAS = _PARTITION.gauge(
    "ReplicasCount", "replicas", "Replicas of a led partition, without new ones of a reassignment.", *_TAGS
)
LAST_STABLE_OFFSET_LAG = _PARTITION.gauge(
    "LastStableOffsetLag", "offsets", "Offsets between the last stable offset and the high watermark.", *_TAGS
)

METRICS = tuple(_PARTITION.described)


def partition_samples(partitions: Iterable[Partition]) -> Iterator[Sample]:
    for partition in partitions:
        topic, number = partition.topic_partition
        for metric, value in zip(METRICS, _values(partition), strict=True):
            yield Sample.gauge(metric.named(topic, str(number)), value)


def _values(partition: Partition) -> tuple[int, ...]:
    """Return the values in the order of ``METRICS``."""
    lag = 0
    try:
        offsets = partition.log.offsets()
        lag = max(0, offsets.high_watermark.message_offset - offsets.last_stable.message_offset)
    except TidelogError:
        pass  # the log is offline or deleted
    if not partition.is_leading or not partition.is_online:
        return (0, 0, 0, 0, 0, lag)
    in_sync, surplus = len(partition.in_sync.isr), partition.in_sync_surplus
    return (
        int(partition.is_under_replicated),
        in_sync,
        int(surplus < 0),
        int(surplus == 0),
        partition.replication_factor,
        lag,
    )
