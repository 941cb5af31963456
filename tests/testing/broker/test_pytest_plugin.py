"""The pytest plugin, used in a separate test run within this process."""

from __future__ import annotations

import tomllib
from importlib import import_module

import pytest

from project.tree import ROOT

pytest_plugins = ("pytester",)

PLUGIN = "tidelog.testing.pytest_plugin"


def test_it_is_where_the_project_says_it_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"tidelog": PLUGIN}
    assert hasattr(import_module(PLUGIN), "kafka_broker")


def test_its_fixtures_are_a_broker_a_topic_an_address_and_a_cluster(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import pytest
        from confluent_kafka import Producer

        seen = []

        @pytest.mark.parametrize("value", [b"one", b"two / 2"])
        def test_produce(kafka_broker, kafka_topic, bootstrap_servers, value):
            producer = Producer({"bootstrap.servers": bootstrap_servers})
            producer.produce(kafka_topic, value)
            assert producer.flush(60) == 0
            assert [record.value for record in kafka_broker.records(kafka_topic)] == [value]
            seen.append((kafka_topic, bootstrap_servers))

        def test_the_session_has_one_broker_and_each_test_a_topic(bootstrap_servers):
            (one, first), (other, second) = seen
            assert first == second == bootstrap_servers
            assert one.startswith("test_produce")
            assert one != other

        def test_time(manual_time_kafka_broker):
            timers = manual_time_kafka_broker.server.timers
            before = timers.now_ms()
            manual_time_kafka_broker.advance(5)
            assert timers.now_ms() == before + 5

        def test_cluster(kafka_cluster):
            kafka_cluster.create_topic("t", partitions=3)
            assert sorted(kafka_cluster.leader("t", number) for number in range(3)) == [1, 2, 3]
        """
    )
    result = pytester.runpytest_inprocess("-p", PLUGIN, "-q")
    result.assert_outcomes(passed=5)
