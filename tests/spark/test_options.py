"""Options: their meaning, their errors, and the treatment of options that are not tidelog's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.read.options import (
    EARLIEST,
    KNOWN,
    LATEST,
    Bound,
    OnCorrupt,
    ReadOptions,
    Subscription,
    SubscriptionKind,
    Until,
    option_warnings,
)
from tidelog.spark.read.table_columns import Mode

BASE = {"logDirs": "/data", "subscribe": "t"}


def parse(**given: str) -> ReadOptions:
    return ReadOptions.parse(BASE | {name.replace("__", "."): value for name, value in given.items()})


def refusal(options: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as raised:
        ReadOptions.parse(options)
    return raised.value.message


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    options = parse()
    assert options.starting == Bound(everywhere=EARLIEST)
    assert options.ending == Bound(everywhere=LATEST)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.read_committed
    assert options.mode is Mode.RECORDS
    assert options.verify_checksums
    assert options.on_corrupt is OnCorrupt.FAIL
    assert options.until is Until.AUTO
    assert (options.min_partitions, options.max_records_per_partition, options.split_bytes) == (None, None, None)


def test_keys_and_words_come_in_any_case() -> None:
    options = ReadOptions.parse(
        {
            "LOGDIRS": "/data",
            "SubScribe": "t",
            "INCLUDEHEADERS": "TRUE",
            "kafka.ISOLATION.level": "Read_Committed",
            "MODE": " Records ",
            "startingoffsets": "EARLIEST",
            "onCORRUPT": "Skip",
            "Columns": "OFFSET, Value",
        }
    )
    assert options.include_headers
    assert options.read_committed
    assert options.on_corrupt is OnCorrupt.SKIP
    assert options.columns == ("offset", "value")


def test_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = "/a, file:///b%20c ,file:/d,FILE://localhost/e,relative/f,/a"
    assert parse(logDirs=given).log_dirs == ("/a", "/b c", "/d", "/e", str(tmp_path / "relative" / "f"))
    assert ReadOptions.parse({"path": "/p", "subscribe": "t"}).log_dirs == ("/p",)
    assert ReadOptions.parse(BASE | {"path": "/p"}).log_dirs == ("/data",)
    assert "'logDirs' is required" in refusal({"subscribe": "t"})
    assert "'logDirs' is required" in refusal({"logDirs": " , ", "subscribe": "t"})
    assert "of this machine" in refusal({"logDirs": "file://elsewhere/a", "subscribe": "t"})
    assert parse(logDirs="s3://bucket/a/,/b").log_dirs == ("s3://bucket/a", "/b")


def test_exactly_one_subscription() -> None:
    assert "exactly one" in refusal({"logDirs": "/data"})
    message = refusal(BASE | {"assign": '{"t":[0]}'})
    assert "assign, subscribe" in message
    assert parse().subscription == Subscription(SubscriptionKind.SUBSCRIBE, topics=frozenset({"t"}))
    several = ReadOptions.parse({"logDirs": "/d", "subscribe": " a, b ,,a"}).subscription
    assert several.topics == {"a", "b"}
    assigned = ReadOptions.parse({"logDirs": "/d", "assign": '{"a":[0,2],"b":[1]}'}).subscription
    assert assigned.partitions == {TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)}
    pattern = ReadOptions.parse({"logDirs": "/d", "subscribePattern": "fl.*s"}).subscription
    assert pattern.covers(TopicPartition("flights", 3))
    assert pattern.covers(TopicPartition("old-flights-x", 0))
    assert not pattern.covers(TopicPartition("flight", 0))


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("assign", "t-0"),
        ("assign", "[]"),
        ("assign", "{}"),
        ("assign", '{"t":0}'),
        ("assign", '{"t":[-1]}'),
        ("assign", '{"t":[true]}'),
        ("assign", '{"t":[0.5]}'),
        ("assign", '{"t":[]}'),
        ("subscribe", " ,"),
        ("subscribePattern", ""),
        ("subscribePattern", "(a"),
    ],
)
def test_subscriptions_that_say_nothing_sensible(option: str, text: str) -> None:
    assert f"'{option}'" in refusal({"logDirs": "/data", option: text})


def test_precedence_of_the_three_ways_to_say_an_end() -> None:
    by_offset = {"startingOffsets": '{"t":{"0":5}}', "endingOffsets": '{"t":{"0":9}}'}
    by_time = {"startingOffsetsByTimestamp": '{"t":{"0":50}}', "endingOffsetsByTimestamp": '{"t":{"0":90}}'}
    everywhere = {"startingTimestamp": "500", "endingTimestamp": "900"}
    partition = TopicPartition("t", 0)
    options = parse(**by_offset)
    assert (options.starting, options.ending) == (Bound(offsets={partition: 5}), Bound(offsets={partition: 9}))
    options = parse(**by_offset, **by_time)
    assert options.starting == Bound(timestamps_ms={partition: 50})
    assert options.ending == Bound(timestamps_ms={partition: 90})
    options = parse(**by_offset, **by_time, **everywhere)
    assert (options.starting, options.ending) == (Bound(timestamp_ms=500), Bound(timestamp_ms=900))


def test_the_special_offsets() -> None:
    partition = TopicPartition("t", 0)
    assert parse(startingOffsets='{"t":{"0":-2}}').starting.offsets == {partition: EARLIEST}
    assert parse(endingOffsets='{"t":{"0":-1}}').ending.offsets == {partition: LATEST}
    assert parse(endingOffsets=" Latest ").ending == Bound(everywhere=LATEST)
    for option, text in (
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"t":{"0":-1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"t":{"0":-2}}'),
    ):
        message = refusal(BASE | {option: text})
        assert option in message
        assert "batch" in message


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("startingOffsets", "first"),
        ("startingOffsets", '{"t":{"0":-3}}'),
        ("startingOffsets", '{"t":{"x":1}}'),
        ("startingOffsets", '{"t":{"-1":1}}'),
        ("startingOffsets", '{"t":[1]}'),
        ("startingOffsets", '{"t":{"0":"1"}}'),
        ("startingOffsets", '{"t":{"0":9223372036854775808}}'),
        ("endingOffsets", "[" * 100_000),
        ("startingTimestamp", "-1"),
        ("startingTimestamp", "yesterday"),
        ("endingTimestamp", str(2**63)),
        ("endingOffsetsByTimestamp", '{"t":{"0":-1}}'),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("failOnDataLoss", "yes"),
        ("failOnDataLoss", " true"),
        ("minPartitions", " 2"),
        ("minPartitions", "1_0"),
        ("minPartitions", "0"),
        ("maxRecordsPerPartition", "many"),
        ("splitBytes", "64m"),
        ("includeHeaders", ""),
        ("kafka.isolation.level", "log_end"),
        ("columns", ""),
        ("columns", "offset,offset"),
        ("columns", "offset,size"),
        ("verifyChecksums", "1"),
        ("onCorrupt", "ignore"),
        ("mode", "rows"),
        ("until", "now"),
    ],
)
def test_a_bad_value_is_named(option: str, text: str) -> None:
    message = refusal(BASE | {option: text})
    assert option in message
    assert text[:40] in message or "bad entry for t-" in message


def test_columns_by_mode_and_options() -> None:
    kafka = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    metadata = "batchBaseOffset leaderEpoch producerId producerEpoch baseSequence isTransactional isControl compression"
    assert parse().arrow_schema.names == kafka
    assert parse(includeHeaders="true").arrow_schema.names == [*kafka, "headers"]
    with_all = parse(includeHeaders="true", includeBatchMetadata="true", onCorrupt="report")
    assert with_all.arrow_schema.names == [*kafka, "headers", *metadata.split(), "corrupt"]
    assert parse(columns="offset,headers,producerId").arrow_schema.names == ["offset", "headers", "producerId"]
    assert parse(columns="value", onCorrupt="report").arrow_schema.names == ["value", "corrupt"]
    assert parse(columns="corrupt,value", onCorrupt="report").arrow_schema.names == ["corrupt", "value"]
    assert parse(mode="batches", columns="crcok,topic").arrow_schema.names == ["crcOk", "topic"]
    assert parse(mode="batches", onCorrupt="report").arrow_schema.names[-1] == "corrupt"
    assert parse(mode="segments", onCorrupt="report").arrow_schema.names[-1] == "logDir"
    assert "mode segments" in refusal(BASE | {"mode": "segments", "columns": "value"})


def test_options_without_effect() -> None:
    moved = {
        "kafka.bootstrap.servers": "host:9092",
        "kafka.group.id": "g",
        "groupIdPrefix": "p",
        "kafkaConsumer.pollTimeoutMs": "512",
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "10",
        "kafka.security.protocol": "SSL",
    }
    assert ReadOptions.parse(BASE | moved) == ReadOptions.parse(BASE)
    assert option_warnings(BASE | moved) == []
    stream = {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1m"}
    assert ReadOptions.parse(BASE | stream) == ReadOptions.parse(BASE)
    assert [sentence.split("'")[1] for sentence in option_warnings(BASE | stream)] == list(stream)
    assert "serialization.format" in option_warnings(BASE | {"serialization.format": "1"})[0]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("startingOffset", "startingOffsets"),
        ("include_headers", "includeHeaders"),
        ("logDir", "logDirs"),
        ("subscribedPattern", "subscribePattern"),
        ("kafka.isolation-level", "kafka.isolation.level"),
        ("endOffsets", "endingOffsets"),
    ],
)
def test_a_misspelt_option_is_refused(given: str, meant: str) -> None:
    assert f"did you mean '{meant}'?" in refusal(BASE | {given: json.dumps("x")})


def test_known_names_are_distinct() -> None:
    assert len({name.lower() for name in KNOWN}) == len(KNOWN)
