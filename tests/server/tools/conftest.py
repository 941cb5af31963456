"""Kafka's own command line tools, and a broker of ours for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from real_kafka.kafka_tools import KafkaTools
from server.harness import BrokerHome, running_broker


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    settings = {
        "offsets_topic_num_partitions": "3",
        "offsets_topic_replication_factor": "1",
        "transaction_state_log_num_partitions": "2",
        "transaction_state_log_replication_factor": "1",
        "transaction_state_log_min_isr": "1",
        "group_initial_rebalance_delay_ms": "0",
    }
    with running_broker(tmp_path_factory.mktemp("tools"), **settings) as home:
        yield home


@pytest.fixture(scope="package")
def tools(broker: BrokerHome) -> Iterator[KafkaTools]:
    with KafkaTools(broker.bootstrap) as running:
        yield running
