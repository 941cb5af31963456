"""kafka-cluster, kafka-features, kafka-metadata-quorum, kafka-broker-api-versions, kafka-transactions."""

from __future__ import annotations

import re

import pytest

from real_kafka.kafka_tools import KafkaTools
from server.harness import BrokerHome
from tidelog.server.handlers.api_groups import advertised_versions
from tidelog.server.metadata.features import release_name

pytestmark = pytest.mark.kafka

NEWEST_LEVEL_OF_THE_TOOL = 31
"""The highest metadata.version that has a name in kafka-features 4.3.1: 4.4-IV0."""


def test_the_cluster(tools: KafkaTools, broker: BrokerHome) -> None:
    cluster_id = broker.call(lambda: broker.broker.metadata.image.cluster_id)
    assert tools.told("kafka-cluster", "cluster-id") == [f"Cluster ID: {cluster_id}"]
    *_, node = tools.told("kafka-cluster", "list-endpoints")
    assert node.split() == ["1", "127.0.0.1", str(broker.port), "null", "unfenced", "broker"]


def test_features(tools: KafkaTools, broker: BrokerHome) -> None:
    lines = tools.told("kafka-features", "describe")
    levels = {line.split()[1]: line.partition("FinalizedVersionLevel: ")[2].split("  ")[0] for line in lines}
    features = broker.call(lambda: broker.broker.metadata.finalized_features)
    level = features["metadata.version"]
    assert levels["metadata.version"] == (
        release_name(level) if level <= NEWEST_LEVEL_OF_THE_TOOL else f"UNKNOWN {level}"
    )
    for feature in ("group.version", "transaction.version"):
        assert levels[feature] == str(features[feature])


def test_the_quorum(tools: KafkaTools) -> None:
    status = dict(line.split(":", 1) for line in tools.told("kafka-metadata-quorum", "describe", "--status"))
    assert (status["LeaderId"].strip(), status["MaxFollowerLag"].strip()) == ("1", "0")
    assert '"id": 1' in status["CurrentVoters"]
    *_, leader = tools.told("kafka-metadata-quorum", "describe", "--replication")
    assert leader.split()[0] == "1"
    assert leader.split()[-1] == "Leader"


def test_the_metadata_log(tools: KafkaTools, broker: BrokerHome) -> None:
    directory = broker.broker.logs.online[0].path / "__cluster_metadata-0"
    (log,) = directory.glob("*.log")
    (snapshot,) = directory.glob("*.checkpoint")
    told = tools.told("kafka-dump-log", "--cluster-metadata-decoder", "--files", f"{log},{snapshot}")
    records = {word for line in told for word in re.findall(r'"type":"(\w+)"', line)}
    assert {"FEATURE_LEVEL_RECORD", "REGISTER_CONTROLLER_RECORD", "REGISTER_BROKER_RECORD"} <= records
    control = {
        word for line in told for word in re.findall(r"(?:LeaderChange|KRaftVersion|KRaftVoters|Snapshot\w+)", line)
    }
    assert control >= {"LeaderChange", "KRaftVersion", "KRaftVoters", "SnapshotHeader", "SnapshotFooter"}
    assert not [line for line in told if "Could not deserialize" in line or "skipping" in line]


def test_versions(tools: KafkaTools) -> None:
    told = tools.told("kafka-broker-api-versions")
    usable = [line for line in told if "usable:" in line]
    assert len(usable) == len(advertised_versions())


def test_transactions(tools: KafkaTools) -> None:
    head, *rows = tools.told("kafka-transactions", "list")
    assert head.split() == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    assert all(row.split()[-1].startswith("Complete") for row in rows)  # other tests use the same broker
    assert len(tools.told("kafka-transactions", "find-hanging", "--broker-id", "1")) == 1
