"""The metrics of the partitions that this broker serves, under Kafka's names.

Thread rule: any thread may make a report; it reads the state of that moment. Source: Kafka's ``ReplicaManager``.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.runtime.metrics import MetricFamily, Sample
from tidelog.server.replicas import fetcher_metrics, partition_metrics, replication_meters, replication_quota
from tidelog.server.replicas.fetcher_metrics import fetcher_samples
from tidelog.server.replicas.partition_metrics import partition_samples
from tidelog.server.replicas.replica_manager import ReplicaManager

_MANAGER = MetricFamily("kafka.server", "ReplicaManager")

LEADERS = _MANAGER.gauge("LeaderCount", "partitions", "Partitions that this broker leads.")
PARTITIONS = _MANAGER.gauge("PartitionCount", "partitions", "Partitions with a replica on this broker.")
OFFLINE = _MANAGER.gauge("OfflineReplicaCount", "partitions", "Replicas on this broker in failed log directories.")
UNDER_REPLICATED = _MANAGER.gauge(
    "UnderReplicatedPartitions", "partitions", "Partitions that this broker leads and that have replicas out of sync."
)
UNDER_MIN_ISR = _MANAGER.gauge(
    "UnderMinIsrPartitionCount", "partitions", "Led partitions with fewer in-sync replicas than `min.insync.replicas`."
)
AT_MIN_ISR = _MANAGER.gauge(
    "AtMinIsrPartitionCount", "partitions", "Led partitions with exactly `min.insync.replicas` in-sync replicas."
)

REASSIGNING = _MANAGER.gauge("ReassigningPartitions", "partitions", "Led partitions with a reassignment under way.")
LATE_TRANSACTIONS = _MANAGER.gauge(
    "PartitionsWithLateTransactionsCount",
    "partitions",
    "Led partitions with a transaction that is open for more than five minutes beyond `transaction.max.timeout.ms`.",
)
PRODUCERS = _MANAGER.gauge("ProducerIdCount", "producers", "Producers in the states of all online partitions.")

METRICS = (
    *_MANAGER.described,
    *replication_meters.METRICS,
    *partition_metrics.METRICS,
    *fetcher_metrics.METRICS,
    *replication_quota.METRICS,
)


def replica_samples(replicas: ReplicaManager) -> Iterator[Sample]:
    partitions = list(replicas.partitions())
    led = [partition for partition in partitions if partition.is_leading and partition.is_online]
    spare = [partition.in_sync_surplus for partition in led]
    yield Sample.gauge(LEADERS.named(), len(led))
    yield Sample.gauge(PARTITIONS.named(), len(partitions))
    yield Sample.gauge(OFFLINE.named(), sum(not partition.is_online for partition in partitions))
    yield Sample.gauge(UNDER_REPLICATED.named(), sum(one.is_under_replicated for one in led))
    yield Sample.gauge(UNDER_MIN_ISR.named(), sum(count < 0 for count in spare))
    yield Sample.gauge(AT_MIN_ISR.named(), sum(count == 0 for count in spare))
    yield Sample.gauge(REASSIGNING.named(), sum(one.is_reassigning for one in led))
    yield Sample.gauge(LATE_TRANSACTIONS.named(), sum(one.has_late_transaction for one in led))
    yield Sample.gauge(PRODUCERS.named(), sum(one.producer_count for one in partitions))
    yield from partition_samples(partitions)
    yield from fetcher_samples(replicas.fetchers)
    yield from replicas.leader_quota.samples()
    yield from replicas.follower_quota.samples()
