"""The metrics of the group coordinator, under Kafka's names. They exist once it is started.

Each report counts the groups. Share and streams groups are not counted. Kafka's metrics of its coordinator's queue and
threads are missing, because this coordinator has neither.
Thread rule: any thread makes a report, from the state at that moment.
Source: Kafka's ``GroupCoordinatorMetrics``, ``CoordinatorRuntimeMetricsImpl``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tidelog.runtime.metrics import MetricDescription, MetricFamily, Sample
from tidelog.runtime.metrics.sampled.sampled_meter import SampledMeter
from tidelog.server.groups.owned_shard import OwnedShard, ShardState
from tidelog.server.groups.state.classic_group import ClassicGroup, ClassicState
from tidelog.server.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from tidelog.server.groups.state.shard_context import GroupCounts

_COORDINATOR = MetricFamily("kafka.server", "group-coordinator-metrics")
_MANAGER = MetricFamily("kafka.coordinator.group", "GroupMetadataManager")
_TIME_WINDOW = "over the last 30 to 60 seconds"

GROUPS = _COORDINATOR.gauge("group-count", "groups", "The groups of the protocol `classic` or `consumer`.", "protocol")
CONSUMER_GROUPS = _COORDINATOR.gauge(
    "consumer-group-count", "groups", "The groups of the new protocol (KIP-848) in each state.", "state"
)
CLASSIC_GROUPS_BY_STATE = _COORDINATOR.gauge(
    "classic-group-count", "groups", "The groups of the classic protocol in each state.", "state"
)
PARTITIONS = _COORDINATOR.gauge(
    "num-partitions",
    "partitions",
    "The partitions of `__consumer_offsets` that this broker leads: `loading`, `active` or `failed`.",
    "state",
)
COMMITTED_OFFSETS = _COORDINATOR.gauge(
    "offset-count", "offsets", "The committed offsets that are stored: equal to `NumOffsets`."
)
LONGEST_LOAD = _COORDINATOR.gauge("partition-load-time-max", "ms", f"The longest load of a partition, {_TIME_WINDOW}.")
MEAN_LOAD = _COORDINATOR.gauge("partition-load-time-avg", "ms", f"The mean load time of a partition, {_TIME_WINDOW}.")
CLASSIC_GROUPS = _MANAGER.gauge("NumGroups", "groups", "The groups of the classic protocol.")
CLASSIC_STATES = {
    state: _MANAGER.gauge(f"NumGroups{state}", "groups", "The groups of the classic protocol in that state.")
    for state in ClassicState
}
OFFSETS = _MANAGER.gauge("NumOffsets", "offsets", "The committed offsets that are stored.")


def _counted(name: str, unit: str, meaning: str) -> tuple[MetricDescription, MetricDescription]:
    """Return the descriptions of a rate and of a count."""
    return (
        _COORDINATOR.gauge(f"{name}-rate", f"{unit}/s", f"{meaning}, {_TIME_WINDOW}."),
        _COORDINATOR.gauge(f"{name}-count", unit, f"{meaning}, since the start."),
    )


COMMITS = _counted("offset-commit", "offsets", "Offsets that clients committed")
EXPIRATIONS = _counted("offset-expiration", "offsets", "Offsets that expired and were deleted")
DELETIONS = _counted("offset-deletion", "offsets", "Offsets that clients deleted")
CLASSIC_REBALANCES = _counted(
    "group-completed-rebalance", "rebalances", "Rebalances of classic groups that ended with an assignment"
)
CONSUMER_REBALANCES = _counted("consumer-group-rebalance", "rebalances", "Rebalances of consumer groups that began")

METRICS = (*_COORDINATOR.described, *_MANAGER.described)


def group_samples(shards: Iterable[OwnedShard], counts: GroupCounts) -> Iterator[Sample]:
    """Yield the samples. ``shards`` are all partitions that this broker leads."""
    owned = list(shards)
    loaded = [one.shard for one in owned if one.state is ShardState.ACTIVE]
    classic: Counter[str] = Counter()
    consumer: Counter[str] = Counter()
    for shard in loaded:
        for group in list(shard.groups.values()):
            if isinstance(group, ClassicGroup):
                classic[group.state] += 1
            elif isinstance(group, ConsumerGroup):
                consumer[group.state] += 1
    yield Sample.gauge(GROUPS.named("classic"), classic.total())
    yield Sample.gauge(GROUPS.named("consumer"), consumer.total())
    for consumer_state in ConsumerGroupState:
        yield Sample.gauge(CONSUMER_GROUPS.named(consumer_state), consumer[consumer_state])
    yield Sample.gauge(CLASSIC_GROUPS.named(), classic.total())
    for classic_state, description in CLASSIC_STATES.items():
        yield Sample.gauge(description.named(), classic[classic_state])
        yield Sample.gauge(CLASSIC_GROUPS_BY_STATE.named(classic_state), classic[classic_state])
    offsets = sum(shard.offsets.count for shard in loaded)
    yield Sample.gauge(OFFSETS.named(), offsets)
    yield Sample.gauge(COMMITTED_OFFSETS.named(), offsets)
    for state in ShardState:
        yield Sample.gauge(PARTITIONS.named(state), sum(one.state is state for one in owned))
    yield Sample.gauge(LONGEST_LOAD.named(), counts.loads.longest_ms)
    yield Sample.gauge(MEAN_LOAD.named(), counts.loads.mean_ms)
    yield from _meter(COMMITS, counts.commits)
    yield from _meter(EXPIRATIONS, counts.expirations)
    yield from _meter(DELETIONS, counts.deletions)
    yield from _meter(CLASSIC_REBALANCES, counts.classic_rebalances)
    yield from _meter(CONSUMER_REBALANCES, counts.consumer_rebalances)


def _meter(described: tuple[MetricDescription, MetricDescription], meter: SampledMeter) -> Iterator[Sample]:
    rate, count = described
    yield Sample.gauge(rate.named(), meter.rate)
    yield Sample.gauge(count.named(), meter.count)
