"""Responses about the cluster, its brokers and its quorum, and updates of features."""

from __future__ import annotations

import pytest

from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

QUORUM = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]


class TestDescribeCluster:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_names_the_broker(self, home: BrokerHome, client: WireClient, version: int) -> None:
        answer = client.call(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
        assert answer.error_code == ErrorCode.NONE
        assert answer.cluster_id == home.call(lambda: home.broker.metadata.image.cluster_id)
        assert answer.controller_id == 1
        (broker,) = answer.brokers
        assert (broker.broker_id, broker.host, broker.port) == (1, "127.0.0.1", home.port)
        assert not broker.is_fenced
        assert answer.cluster_authorized_operations > 0

    def test_says_nothing_of_what_was_not_asked(self, client: WireClient) -> None:
        answer = client.call(ApiKey.DESCRIBE_CLUSTER)
        assert answer.cluster_authorized_operations == -(2**31)

    @pytest.mark.parametrize(
        ("endpoint_type", "code"),
        [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    )
    def test_is_not_a_controllers_listener(self, client: WireClient, endpoint_type: int, code: ErrorCode) -> None:
        answer = client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=endpoint_type)
        assert answer.error_code == code


class TestDescribeQuorum:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_has_one_voter_that_leads(self, home: BrokerHome, client: WireClient, version: int) -> None:
        answer = client.call(ApiKey.DESCRIBE_QUORUM, version, topics=QUORUM)
        (topic,) = answer.topics
        (part,) = topic.partitions
        assert (part.error_code, part.leader_id, part.leader_epoch) == (ErrorCode.NONE, 1, 1)
        (voter,) = part.current_voters
        assert voter.replica_id == 1
        assert voter.log_end_offset == part.high_watermark > 0
        if version == 2:
            assert voter.replica_directory_id == home.call(lambda: home.broker.logs.online[0].id)
            assert [node.node_id for node in answer.nodes] == [1]

    def test_is_of_the_metadata_alone(self, client: WireClient) -> None:
        topics = [{"topic_name": "t", "partitions": [{"partition_index": 3}]}]
        (topic,) = client.call(ApiKey.DESCRIBE_QUORUM, topics=topics).topics
        assert [part.error_code for part in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


class TestUpdateFeatures:
    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_go_down_and_up(self, home: BrokerHome, client: WireClient, version: int) -> None:
        down = {"feature": "transaction.version", "max_version_level": 1, "upgrade_type": 2, "allow_downgrade": True}
        if version == 0:
            del down["upgrade_type"]
        else:
            del down["allow_downgrade"]
        answer = client.call(ApiKey.UPDATE_FEATURES, version, feature_updates=[down])
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        assert len(answer.results) == (1 if version < 2 else 0)
        assert home.call(lambda: home.broker.metadata.image.features["transaction.version"]) == 1

    @pytest.mark.parametrize(
        ("name", "level", "upgrade_type", "reason"),
        [
            (
                "transaction.version",
                1,
                1,
                "without setting the upgrade type to either safe or unsafe downgrade.",
            ),
            ("transaction.version", 3, 1, "Local controller 1 only supports versions 0-2"),
            ("no.such.feature", 1, 1, "does not support this feature."),
            ("metadata.version", 20, 2, "Refusing to perform the requested downgrade"),
            ("metadata.version", 26, 9, "The controller does not support the given upgrade type."),
            ("group.version", -1, 2, "A feature version cannot be less than 0."),
        ],
    )
    def test_that_cannot_be(
        self, home: BrokerHome, client: WireClient, name: str, level: int, upgrade_type: int, reason: str
    ) -> None:
        before = home.call(lambda: dict(home.broker.metadata.image.features))
        updates = [
            {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2},
            {"feature": name, "max_version_level": level, "upgrade_type": upgrade_type},
        ]
        answer = client.call(ApiKey.UPDATE_FEATURES, feature_updates=updates[name == "group.version" :])
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert reason in answer.error_message
        assert home.call(lambda: dict(home.broker.metadata.image.features)) == before


def test_a_broker_is_there_again_after_a_restart(home: BrokerHome, client: WireClient) -> None:
    first = home.call(lambda: home.broker.metadata.image.cluster_id)
    epoch = home.call(lambda: home.broker.metadata.broker_epoch)
    home.restart()
    assert home.call(lambda: home.broker.metadata.image.cluster_id) == first
    assert home.call(lambda: home.broker.metadata.broker_epoch) > epoch
    assert home.call(lambda: home.broker.logs.previous_broker_epoch()) == epoch
    with home.client() as again:
        answer = again.call(ApiKey.DESCRIBE_QUORUM, topics=QUORUM)
        assert answer.topics[0].partitions[0].leader_epoch == 2
