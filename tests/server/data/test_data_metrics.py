"""The metrics of a broker's partitions and fetch sessions."""

from __future__ import annotations

from server.data.data_home import DataHome
from tidelog.model import TopicPartition
from tidelog.server.fetching import session_cache
from tidelog.server.replicas import replica_metrics

GROUPS = ("ReplicaManager", "FetchSessionCache")


def reported(data: DataHome) -> dict[str, float | None]:
    """Return the metrics by name. A meter has no value."""
    samples = data.home.broker.metrics.samples()
    return {sample.name.name: sample.values.get("Value") for sample in samples if sample.name.type in GROUPS}


def test_partitions_are_counted_by_what_is_with_them(data: DataHome) -> None:
    data.create(partitions=5, min_insync_replicas="2")

    def differ() -> None:
        data.partition(number=0).leader = 9
        data.assign(7, number=1)
        data.assign(7, are_in_sync=True, number=2)
        data.home.broker.logs.delete(TopicPartition("t", 3))

    data.home.call(differ)
    expected = {
        "PartitionCount": 5,
        "LeaderCount": 3,
        "OfflineReplicaCount": 1,
        "UnderReplicatedPartitions": 1,
        "UnderMinIsrPartitionCount": 1,
        "AtMinIsrPartitionCount": 2,
        "NumIncrementalFetchSessions": 0,
        "NumIncrementalFetchPartitionsCached": 0,
    }
    assert expected.items() <= reported(data).items()


def test_sessions_are_counted_with_their_partitions(data: DataHome) -> None:
    data.create(partitions=2)
    data.fetch_many({("t", 0): 0, ("t", 1): 0}, session_epoch=0)
    values = reported(data)
    assert (values["NumIncrementalFetchSessions"], values["NumIncrementalFetchPartitionsCached"]) == (1, 2)


def test_every_metric_in_the_tables_is_reported(data: DataHome) -> None:
    tables = (*replica_metrics.METRICS, *session_cache.METRICS)
    assert reported(data).keys() == {family.name for family in tables if family.type in GROUPS}
    data.home.stop()
    assert not reported(data)
