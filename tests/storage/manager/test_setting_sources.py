"""A topic's settings from cluster metadata, properties files and the command line, and their precedence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from tidelog.model import ConfigError
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources


def test_of_topics_in_real_metadata(golden: GoldenFactory) -> None:
    sources = read_setting_sources(LOCAL, [golden(FLIGHTS)])[golden(FLIGHTS)]
    airports = sources.of_topic("airports")
    assert airports.config.cleanup_policy == {"compact"}
    assert airports.config.segment_bytes == 131072
    assert (airports.origins["cleanup.policy"], airports.origins["retention.ms"]) == ("topic", "default")
    assert sources.of_topic("flights").origins["cleanup.policy"] == "default"
    assert sources.metadata_from == golden(FLIGHTS)


def test_internal_topics_without_metadata() -> None:
    found = SettingSources().of_topic("__consumer_offsets")
    assert found.config.cleanup_policy == {"compact"}
    assert found.origins["cleanup.policy"] == "default of this topic"


def test_the_metadata_log_is_kept_by_snapshots() -> None:
    found = SettingSources(overrides={"retention.ms": "1"}).of_topic("__cluster_metadata")
    assert (found.config.retention_ms, found.config.retention_bytes) == (-1, -1)


def test_each_source_wins_over_those_before() -> None:
    file = {"log.retention.hours": "2", "log.retention.bytes": "100", "log.cleanup.policy": "compact,delete"}
    metadata = TopicMetadata()
    sources = SettingSources(file=file, file_name="server.properties", metadata=metadata, node_id=7)

    def retention_ms(sources: SettingSources) -> tuple[int, str]:
        found = sources.of_topic("t")
        return found.config.retention_ms, found.origins["retention.ms"]

    assert retention_ms(sources) == (7_200_000, "server.properties")
    assert sources.of_topic("t").config.retention_bytes == 100
    assert sources.of_topic("t").config.cleanup_policy == {"compact", "delete"}
    metadata.broker_settings[""] = {"log.retention.ms": "10"}
    assert retention_ms(sources) == (10, "all brokers")
    metadata.broker_settings["7"] = {"log.retention.ms": "11"}
    metadata.broker_settings["8"] = {"log.retention.ms": "99"}
    assert retention_ms(sources) == (11, "broker 7")
    metadata.topic_settings["t"] = {"retention.ms": "12"}
    assert retention_ms(sources) == (12, "topic")
    both = SettingSources(file={"retention.ms": "13"}, file_name="t.properties", metadata=metadata)
    assert retention_ms(both) == (13, "t.properties")
    own = replace(both, overrides={"retention.ms": "14"})
    assert retention_ms(own) == (14, "--config")
    named = replace(own, topic_overrides={"t": {"retention.ms": "15"}, "u": {"retention.ms": "16"}})
    assert retention_ms(named) == (15, "--topic-config")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ({"log.retention.ms": "5", "log.retention.minutes": "6", "log.retention.hours": "7"}, 5),
        ({"log.retention.minutes": "6", "log.retention.hours": "7"}, 360_000),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
        ({"log.dirs": "/data"}, 604_800_000),
    ],
)
def test_the_finest_unit_of_a_broker_wins(file: dict[str, str], expected: int) -> None:
    assert SettingSources(file=file, file_name="f").of_topic("t").config.retention_ms == expected


@pytest.mark.parametrize(
    "sources",
    [
        SettingSources(file={"log.retention.hours": "many"}),
        SettingSources(overrides={"retention.ms": "-2"}),
        SettingSources(overrides={"log.retention.hours": "1"}),
        SettingSources(overrides={"cleanup.policy": "burn"}),
        SettingSources(topic_overrides={"t": {"no.such.key": "1"}}),
    ],
)
def test_values_that_are_none(sources: SettingSources) -> None:
    with pytest.raises(ConfigError):
        sources.of_topic("t")


def test_another_directory_of_the_same_broker_may_have_the_metadata(golden: GoldenFactory, tmp_path: Path) -> None:
    here, there, foreign = tmp_path / "here", golden(FLIGHTS), golden(SCENARIOS)
    here.mkdir()
    (here / "meta.properties").write_bytes((there / "meta.properties").read_bytes())
    sources = read_setting_sources(LOCAL, [here, foreign, there])
    assert sources[here].metadata_from == there
    assert sources[here].of_topic("airports").config.is_compacted
    assert sources[foreign].metadata_from == foreign
    assert read_setting_sources(LOCAL, [here, foreign])[here].metadata_from is None
    (here / "meta.properties").write_text("version=9\n")
    assert read_setting_sources(LOCAL, [here, there])[here].metadata_from is None


def test_a_broker_says_how_long_idle_producers_are_known() -> None:
    sources = SettingSources(file={"producer.id.expiration.ms": "5000"}, file_name="server.properties")
    assert sources.of_topic("t").config.producer_id_expiration_ms == 5000
