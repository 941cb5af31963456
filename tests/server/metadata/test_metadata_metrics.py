"""The metadata's metrics equal a count over the image, after any changes."""

from __future__ import annotations

from server.metadata.metadata_harness import MetadataHarness, create, run
from tidelog.runtime.metrics import MetricRegistry
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.metadata.kraft.metadata_metrics import METRICS, MetadataMetrics
from tidelog.server.metadata.requests import NewPartitions


def reported(registry: MetricRegistry) -> dict[str, float]:
    return {sample.name.name: sample.values["Value"] for sample in registry.samples()}


def counted(metadata: ClusterMetadata) -> dict[str, float]:
    image = metadata.image
    states = [state for _, _, state in image.partitions()]
    fenced = sum(broker.is_fenced for broker in image.brokers.values())
    return {
        "ActiveControllerCount": 1,
        "GlobalTopicCount": len(image.topics),
        "GlobalPartitionCount": len(states),
        "OfflinePartitionsCount": sum(state.leader == -1 for state in states),
        "PreferredReplicaImbalanceCount": sum(state.leader != state.replicas[0] for state in states),
        "ActiveBrokerCount": len(image.brokers) - fenced,
        "FencedBrokerCount": fenced,
        "LastAppliedRecordOffset": metadata.quorum.high_watermark - 1,
    }


def test_they_count_what_there_is() -> None:
    async def work() -> None:
        harness = MetadataHarness()
        metadata = await harness.joined()
        await create(metadata, "before", partitions=2)
        registry = MetricRegistry()
        metrics = MetadataMetrics(metadata, 1)
        metrics.watch(registry)
        assert reported(registry) == counted(metadata)
        await create(metadata, "t", "u", partitions=3)
        await metadata.create_partitions([NewPartitions(topic="t", total=5)])
        await metadata.delete_topics(["u"])
        assert reported(registry) == counted(metadata)
        await metadata.leave()
        assert reported(registry) == counted(metadata)
        assert reported(registry)["OfflinePartitionsCount"] == 7
        assert reported(registry).keys() == {description.name for description in METRICS}
        metrics.close()
        assert not reported(registry)
        await metadata.close()

    run(work)
