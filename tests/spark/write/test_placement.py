"""The partition of a row: its own, its key's as in Kafka's client, or the task's turn."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from kafka.partitioner.default import murmur2

from spark.write.sinks import ARROW_TYPES
from tidelog.model import ConfigError, InvalidRecordError, TidelogError, UnknownTopicOrPartitionError
from tidelog.spark.write.placement import Placement
from tidelog.spark.write.topic_layout import TopicLayout, TopicLayouts
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.log.state.log_config import LogConfig

LAYOUTS = TopicLayouts(
    known={
        "t": TopicLayout(partition_count=3),
        "keyed": TopicLayout(partition_count=2, config=LogConfig(cleanup_policy=frozenset({"compact"}))),
        "spread": TopicLayout(partition_count=4, elsewhere=frozenset({2})),
    },
    new=TopicLayout(partition_count=5),
)


def place(rows: list[dict[str, Any]], *, task: int = 0, **given: str) -> dict[str, list[Any]]:
    """Return the values by partition."""
    placement = Placement(WriteOptions.parse({"logDirs": "/logs"} | given), LAYOUTS, task)
    return placed(placement, rows)


def placed(placement: Placement, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    table = pa.Table.from_pylist(rows, schema=pa.schema([(name, ARROW_TYPES[name]) for name in rows[0]]))
    return {str(partition): part.column("value").to_pylist() for partition, part in placement.by_partition(table)}


def test_thousands_of_keys_go_where_the_client_sends_them() -> None:
    chance = random.Random(3)
    keys = [chance.randbytes(chance.randrange(20)) for _ in range(5000)]
    wanted: dict[str, list[bytes]] = {}
    for key in keys:
        wanted.setdefault(f"t-{(murmur2(key) & 0x7FFFFFFF) % 3}", []).append(key)
    assert place([{"key": key, "value": key} for key in keys], topic="t") == wanted


def test_a_rows_own_partition_goes_before_its_keys() -> None:
    rows = [{"key": b"k", "value": b"%d" % place, "partition": number} for place, number in enumerate((2, 0, None, 2))]
    (keys_own,) = place([{"key": b"k", "value": b"v"}], topic="t")
    assert keys_own == "t-2"
    assert place(rows, topic="t") == {"t-2": [b"0", b"2", b"3"], "t-0": [b"1"]}


def test_an_empty_key_is_a_key() -> None:
    (with_empty,) = place([{"key": b"", "value": b"v"}] * 2, topic="t")
    assert place([{"key": b"", "value": b"v"}] * 2, topic="t", task=2).keys() == {with_empty}


def test_keyless_rows_fill_one_partition_after_the_other() -> None:
    rows = [{"value": b"%03d" % number} for number in range(8)]  # three bytes each, nine bytes to a turn
    options = WriteOptions.parse({"logDirs": "/logs", "topic": "t", "kafka.batch.size": "9"})
    placement = Placement(options, LAYOUTS, 1)
    assert placed(placement, rows) == {
        "t-1": [b"000", b"001", b"002"],
        "t-2": [b"003", b"004", b"005"],
        "t-0": [b"006", b"007"],
    }
    assert placed(placement, rows[:2]) == {"t-0": [b"000"], "t-1": [b"001"]}


def test_keyed_rows_between_them_do_not_count() -> None:
    rows: list[dict[str, Any]] = [
        {"key": None, "value": b"1234"},
        {"key": b"k", "value": b"v" * 100},
        {"key": None, "value": b"5678"},
    ]
    options = WriteOptions.parse({"logDirs": "/logs", "topic": "t", "kafka.batch.size": "8"})
    found = placed(Placement(options, LAYOUTS, 0), rows)
    assert [value for value in found["t-0"] if len(value) == 4] == [b"1234", b"5678"]


def test_rows_name_their_topics() -> None:
    rows = [{"topic": topic, "value": b"%d" % number} for number, topic in enumerate(["t", "other", "t", "other"])]
    assert place(rows, task=4) == {"t-1": [b"0", b"2"], "other-4": [b"1", b"3"]}
    assert place(rows, task=4, topic="t") == {"t-1": [b"0", b"1", b"2", b"3"]}


@pytest.mark.parametrize(
    ("row", "kind", "said"),
    [
        ({"topic": None, "value": b"v"}, ConfigError, "A row has no topic"),
        ({"topic": "no topic", "value": b"v"}, ConfigError, "'no topic' is not a topic that accepts writes"),
        ({"topic": "__cluster_metadata", "value": b"v"}, ConfigError, "is not a topic that accepts writes"),
        (
            {"topic": "t", "value": b"v", "partition": 3},
            UnknownTopicOrPartitionError,
            "partition 3 of topic t, which has 3",
        ),
        ({"topic": "t", "value": b"v", "partition": -1}, UnknownTopicOrPartitionError, "partition -1 of topic t"),
        ({"topic": "new", "value": b"v", "partition": 5}, UnknownTopicOrPartitionError, "which has 5"),
        ({"topic": "spread", "value": b"v", "partition": 2}, UnknownTopicOrPartitionError, "on other brokers"),
        ({"topic": "keyed", "value": b"v"}, InvalidRecordError, "compacted: it takes no record without a key"),
        ({"topic": "keyed", "key": None, "value": b"v"}, InvalidRecordError, "no record without a key"),
    ],
)
def test_rows_that_have_no_place_are_refused(row: dict[str, Any], kind: type[TidelogError], said: str) -> None:
    good = row | {"topic": "t", "partition": 0, "key": b"k"}
    rows = [{name: some[name] for name in row} for some in (good, row)]
    with pytest.raises(kind, match=said):
        place(rows)
