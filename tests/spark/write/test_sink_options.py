"""Options and columns of the sinks: their meaning, and the errors for invalid ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.types import IntegerType, StructField, StructType

from spark.write.sinks import HEADERS_TYPE, SPARK_TYPES, query_of
from tidelog.model import ConfigError
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.write_options import WriteOptions, option_warnings


def parse(**given: str) -> WriteOptions:
    return WriteOptions.parse({name.replace("__", "."): text for name, text in ({"logDirs": "/logs"} | given).items()})


def test_defaults_and_values() -> None:
    assert parse() == WriteOptions(log_dir=Path("/logs"))
    assert (parse().num_partitions, parse().codec, parse().batch_bytes, parse().lock_timeout_ms) == (
        1,
        "none",
        1_000_000,
        10_000,
    )
    given = parse(
        TOPIC="t",
        numpartitions="4",
        kafka__compression__type="ZSTD",
        kafka__compression__zstd__level="7",
        kafka__compression__gzip__level="99",
        kafka__batch__size="16384",
        lockTimeout="2m",
    )
    assert given == WriteOptions(
        log_dir=Path("/logs"),
        topic="t",
        num_partitions=4,
        codec="zstd",
        level=7,
        batch_bytes=16384,
        lock_timeout_ms=120_000,
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"logDirs": "/a,/b"}, "one directory"),
        ({"logDirs": "s3://bucket/a"}, "on a disk"),
        ({"logDirs": ""}, "'logDirs' is required"),
        ({"topic": "no topic"}, "'topic' is not a legal name"),
        ({"numPartitions": "0"}, "'numPartitions' takes a whole number from 1"),
        ({"numPartition": "2"}, "did you mean 'numPartitions'"),
        ({"kafka__compression__type": "brotli"}, "takes one of none, gzip, snappy, lz4, zstd"),
        ({"kafka__compression__type": "gzip", "kafka__compression__gzip__level": "11"}, "gzip has levels 1 to 9"),
        ({"lockTimeout": "soon"}, "'lockTimeout' takes a time"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse(**given)


def test_options_without_effect_are_told() -> None:
    given = {"logDirs": "/logs", "kafka.acks": "all", "checkpointLocation": "/c", "mergeSchema": "true"}
    assert option_warnings(given) == ["Option 'mergeSchema' is not one of format tidelog's sink and has no effect"]
    (warning,) = option_warnings({"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"})
    assert "keys go where the Java client's default partitioner sends them" in warning


class TestColumns:
    def test_the_records_columns_of_any_others(self) -> None:
        columns = SinkColumns.of(query_of(["note", "value", "headers", "topic", "partition", "key"]), None)
        assert columns.schema.names == ["topic", "key", "value", "headers", "partition"]
        batch = pa.RecordBatch.from_pylist([{"note": 1, "value": b"v", "topic": "t", "key": b"k"}])
        assert SinkColumns.of(query_of(["note", "value"]), "t").of_batch(batch).to_pylist() == [{"value": b"v"}]

    def test_the_option_goes_before_the_column(self) -> None:
        assert SinkColumns.of(query_of(["topic", "value"]), "t").schema.names == ["value"]

    def test_rows_one_by_one_give_the_same(self) -> None:
        columns = SinkColumns.of(query_of(["note", "value", "headers", "partition"]), "t")
        header = Row(key="h", value=bytearray(b"1"))
        rows = [
            Row(note=1, value=bytearray(b"v"), headers=[header, None], partition=3),
            Row(2, None, None, None),
        ] * 6000
        batches = list(columns.of_rows(rows))
        assert [batch.num_rows for batch in batches] == [10_000, 2_000]
        assert batches[0].schema == columns.schema
        assert batches[0].to_pylist()[:2] == [
            {"value": b"v", "headers": [{"key": "h", "value": b"1"}, None], "partition": 3},
            {"value": None, "headers": None, "partition": None},
        ]

    @pytest.mark.parametrize(
        ("names", "types", "said"),
        [
            (["key", "value"], {}, "no column 'topic': name the topic of all rows with the option 'topic'"),
            (["topic", "key"], {}, "no column 'value', only topic, key"),
            (["topic", "value"], {"value": IntegerType()}, "'value' has type int, it must be string or binary"),
            (["topic", "value", "partition"], {"partition": SPARK_TYPES["note"]}, "type bigint, it must be int"),
            (
                ["topic", "value", "headers"],
                {"headers": SPARK_TYPES["key"]},
                "it must be array<struct<key:string,value:binary>>",
            ),
            (["topic", "value"], {"topic": SPARK_TYPES["key"]}, "'topic' has type binary, it must be string"),
        ],
    )
    def test_others_are_refused(self, names: list[str], types: dict[str, Any], said: str) -> None:
        fields = [StructField(name, types.get(name, SPARK_TYPES[name])) for name in names]
        with pytest.raises(ConfigError, match=re.escape(said)):
            SinkColumns.of(StructType(fields), None)

    def test_headers_are_those_of_the_source(self) -> None:
        assert (
            SinkColumns.of(query_of(["value", "headers"]), "t").schema.field("headers").type.value_type.num_fields == 2
        )
        assert HEADERS_TYPE.simpleString() == "array<struct<key:string,value:binary>>"
