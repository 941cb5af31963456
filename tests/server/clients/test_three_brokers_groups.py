"""Consumer groups on three processes, each of which coordinates some groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from server.clients.group_members import TOPIC
from server.clients.test_groups import (
    PARTITIONS,
    QUICK,
    SHORT_SESSIONS,
    group,
    test_a_group_moves_to_the_new_protocol_member_by_member,
    test_a_static_member_is_back_without_a_rebalance,
    test_members_come_and_go_and_offsets_go_on,
    test_members_go_on_after_a_restart_of_the_broker,
    test_one_member_after_the_other_with_kafka_python,
    test_partitions_of_a_member_that_was_killed_are_taken_over,
    test_topics_by_regular_expression,
)
from server.clients.three_brokers import ThreeBrokers, three_brokers
from server.cluster.process_cluster import PATIENCE_S

__all__ = [
    "group",
    "test_a_group_moves_to_the_new_protocol_member_by_member",
    "test_a_static_member_is_back_without_a_rebalance",
    "test_members_come_and_go_and_offsets_go_on",
    "test_members_go_on_after_a_restart_of_the_broker",
    "test_one_member_after_the_other_with_kafka_python",
    "test_partitions_of_a_member_that_was_killed_are_taken_over",
    "test_topics_by_regular_expression",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SESSION_MS = SHORT_SESSIONS["group_consumer_session_timeout_ms"]
MIN_SESSION = "group_consumer_min_session_timeout_ms"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeBrokers]:
    settings = {**QUICK, MIN_SESSION: SHORT_SESSIONS[MIN_SESSION], "group_initial_rebalance_delay_ms": "0"}
    configs = {key.replace("_", "."): value for key, value in settings.items()}
    with three_brokers(tmp_path_factory.mktemp("cluster"), configs) as running:
        yield running


@pytest.fixture
def groups(brokers: ThreeBrokers) -> ThreeBrokers:
    brokers.recreate_topic(TOPIC, PARTITIONS)
    return brokers


@pytest.fixture
def groups_with_short_sessions(groups: ThreeBrokers, group: str) -> ThreeBrokers:
    """Set the session of the test's group only, because other members are to outlive a busy machine."""
    resource = ConfigResource(ResourceType.GROUP, group)
    entry = ConfigEntry("consumer.session.timeout.ms", SESSION_MS, incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    (altered,) = groups.cluster.admin.incremental_alter_configs([resource]).values()
    altered.result(PATIENCE_S)
    groups.cluster.wait_for_metadata()
    return groups
