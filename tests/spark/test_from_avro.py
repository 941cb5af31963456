"""The function ``from_avro``: values with schema ids, decoded by Spark's own Avro package or by the Python workers.

``test_oldest_pyspark`` runs this file again, in sessions with Spark's package. The expected values are the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
import tidelog.spark.avro.column
from log_maker import mark_clean
from spark.schema_topic_maker import encoded, hard_deleted, registered, write_schema_topic
from tidelog.inspect.avro.stored_schema import prefix_of
from tidelog.model import ConfigError
from tidelog.spark import from_avro
from tidelog.spark.avro import jvm_column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HAS_PACKAGE = "spark-avro" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    listed = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": listed} | more


FLIGHT_1 = record("Flight", ("number", "int"), ("gate", "string"), namespace="air")
FLIGHT_2 = record("Flight", ("number", "long"), ("to", ["null", "string"], None), namespace="air")
FLIGHT_3 = record("Flight", ("number", "long"), ("to", ["null", "string"], None), ("late", "int", -1), namespace="air")
FLIGHTS = [
    registered("flights-value", 1, 1, FLIGHT_1),
    registered("flights-value", 2, 2, FLIGHT_2),
    registered("flights-value", 3, 4, FLIGHT_3),
    registered("airports-value", 1, 3, "string"),
]
OLDEST = encoded(1, FLIGHT_1, {"number": 7, "gate": "A1"})


def decoded(spark: SparkSession, values: Sequence[bytes | None], schemas: Any, **options: Any) -> list[Any]:
    """Return the decoded values, structs as dicts."""
    rows = [(number, value) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "number int, value binary")
    found = frame.select("number", from_avro("value", schemas, **options).alias("decoded")).orderBy("number")
    return [row.asDict(recursive=True)["decoded"] for row in found.collect()]


def test_the_way_is_that_of_the_session(spark: SparkSession) -> None:
    assert jvm_column.has_spark_avro(spark) == HAS_PACKAGE


def test_several_writers_schemas_become_one_readers_schema(spark: SparkSession, tmp_path: Path) -> None:
    write_schema_topic(tmp_path, FLIGHTS)
    values = [
        OLDEST,
        encoded(2, FLIGHT_2, {"number": 2**40, "to": "OSL"}),
        encoded(4, FLIGHT_3, {"number": -1, "to": None, "late": 5}),
        None,
    ]
    assert decoded(spark, values, tmp_path, reader_schema="flights-value") == [
        {"number": 7, "to": None, "late": -1},
        {"number": 2**40, "to": "OSL", "late": -1},
        {"number": -1, "to": None, "late": 5},
        None,
    ]
    (first, *_) = decoded(spark, values[:1], str(tmp_path), reader_schema=2)
    assert first == {"number": 7, "to": None}
    (first, *_) = decoded(
        spark, values[1:2], [tmp_path], reader_schema=json.dumps(record("Flight", ("to", ["null", "string"])))
    )
    assert first == {"to": "OSL"}


def test_schemas_and_records_of_one_log_directory(spark: SparkSession, tmp_path: Path) -> None:
    write_schema_topic(tmp_path, FLIGHTS[:3])
    with tidelog.open_log(tmp_path / "flights-0") as log:
        log.append_batch([OLDEST, encoded(4, FLIGHT_3, {"number": 8, "to": "BGO", "late": 0}), None])
    mark_clean(tmp_path)
    flights = spark.read.format("tidelog").option("logDirs", str(tmp_path)).option("subscribe", "flights").load()
    rows = flights.select("offset", from_avro("value", tmp_path).alias("flight")).selectExpr("offset", "flight.*")
    assert sorted(map(tuple, rows.collect())) == [(0, 7, None, -1), (1, 8, "BGO", 0), (2, None, None, None)]


def test_references_to_other_subjects(spark: SparkSession, tmp_path: Path) -> None:
    code = {"type": "enum", "name": "Code", "namespace": "air.ground", "symbols": ["OSL", "BGO"]}
    place = record("Place", ("code", "Code"), ("height", ["null", "int"]), namespace="air.ground")
    leg = record(
        "Leg", ("from", "air.ground.Place"), ("to", "air.ground.Place"), ("over", "air.ground.Code"), namespace="air"
    )
    refer = [{"name": "air.ground.Code", "subject": "code", "version": 1}]
    records = [
        registered("code", 1, 10, code),
        registered("place", 1, 11, place, references=refer),
        registered(
            "legs-value",
            1,
            12,
            leg,
            references=[{"name": "air.ground.Place", "subject": "place", "version": 1}, *refer],
        ),
        registered("broken-value", 1, 13, leg, references=[{"name": "a", "subject": "gone", "version": 1}]),
    ]
    write_schema_topic(tmp_path, records)
    value = {"from": {"code": "OSL", "height": 208}, "to": {"code": "BGO", "height": None}, "over": "OSL"}
    data = encoded(12, leg, value, code, place)
    assert decoded(spark, [data], tmp_path, reader_schema="legs-value") == [value]
    with pytest.raises(Exception, match="id 13, whose schema cannot be used: the schema refers to version 1 of the"):
        decoded(spark, [prefix_of(13) + data[5:]], tmp_path, reader_schema=12)
    with pytest.raises(ConfigError, match=r"the reader schema, with id 13, cannot be used: .* subject gone"):
        decoded(spark, [data], tmp_path, reader_schema="broken-value")


def test_deleted_schemas_still_decode_older_values(spark: SparkSession, tmp_path: Path) -> None:
    soft = registered("flights-value", 3, 4, FLIGHT_3, deleted=True)
    write_schema_topic(tmp_path, [*FLIGHTS, soft, hard_deleted("flights-value", 1)])
    values = [OLDEST, encoded(4, FLIGHT_3, {"number": 9, "to": "OSL", "late": 5})]
    found = decoded(spark, values, tmp_path, reader_schema="flights-value")
    assert found == [{"number": 7, "to": None}, {"number": 9, "to": "OSL"}]  # the latest live version is the second


DAMAGED = {
    b"": "a value of 0 bytes is not in the wire format",
    b"\0\0\0\1": "a value of 4 bytes is not in the wire format",
    b"\1" + OLDEST[1:]: "a value of 9 bytes is not in the wire format",
    b"\0\xff" + OLDEST[2:]: "a value of 9 bytes is not in the wire format",
    encoded(3, "string", "x"): "the schema id 3, which is not among the schemas of its column in /",
    prefix_of(2**31 - 1): "the schema id 2147483647, which is not among",
    OLDEST[:7]: "a value of 7 bytes does not fit its schema, which has the id 1, and the reader schema",
    encoded(
        5, record("Other", ("a", "int")), {"a": 1}
    ): "a value of 6 bytes does not fit its schema, which has the id 5",
    encoded(6, "string", "x"): "the schema id 6, whose schema cannot be used: it is PROTOBUF",
}


def test_undecodable_values_are_errors_or_null(spark: SparkSession, tmp_path: Path) -> None:
    other = registered("flights-value", 4, 5, record("Other", ("a", "int")))
    protobuf = registered("flights-value", 5, 6, "message A {}", schemaType="PROTOBUF")
    latest = registered("flights-value", 6, 7, record("Flight", ("number", ["long", "null"]), namespace="air"))
    write_schema_topic(tmp_path, [*FLIGHTS, other, protobuf, latest])
    nulls = encoded(7, record("Flight", ("number", ["long", "null"]), namespace="air"), {"number": None})
    values = [*DAMAGED, nulls]
    found = decoded(spark, values, tmp_path, reader_schema="flights-value", mode="permissive")
    assert found == [None] * len(DAMAGED) + [{"number": None}]
    for damaged, sentence in DAMAGED.items():
        with pytest.raises(Exception, match=sentence) as caught:
            decoded(spark, [nulls, damaged], tmp_path, reader_schema="flights-value")
        assert 'mode="PERMISSIVE" returns null for it' in str(caught.value)


def test_a_decoded_null_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    maybe = ["null", record("A", ("n", "int"))]
    write_schema_topic(tmp_path, [registered("a-value", 1, 1, maybe)])
    values = [encoded(1, maybe, None), encoded(1, maybe, {"n": 1}), None]
    assert decoded(spark, values, tmp_path) == [None, {"n": 1}, None]
    with pytest.raises(Exception, match="a value of 6 bytes does not fit its schema"):
        decoded(spark, [prefix_of(1) + b"\x09"], tmp_path)


def test_a_folder_of_schemas(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(FLIGHT_1))
    assert decoded(spark, [OLDEST], tmp_path) == [{"number": 7, "gate": "A1"}]
    (tmp_path / "2.avsc").write_text(json.dumps(FLIGHT_2))
    (tmp_path / "notes.txt").write_text("no schema")
    assert decoded(spark, [OLDEST], tmp_path, reader_schema=2) == [{"number": 7, "to": None}]
    other = tmp_path / "kafka"
    write_schema_topic(other, FLIGHTS[3:])
    assert decoded(spark, [encoded(3, "string", "OSL")], [tmp_path, other], reader_schema=3) == ["OSL"]


def long(logical: str) -> dict[str, str]:
    return {"type": "long", "logicalType": logical}


DECIMAL = {"logicalType": "decimal", "precision": 38, "scale": 2}
EVERYTHING = record(
    "Everything",
    ("flag", "boolean"),
    ("int", "int"),
    ("long", "long"),
    ("float", "float"),
    ("double", "double"),
    ("bytes", "bytes"),
    ("text", "string"),
    ("fixed", {"type": "fixed", "name": "F", "size": 3}),
    ("again", "F"),
    ("enum", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("days", {"type": "array", "items": ["null", {"type": "int", "logicalType": "date"}]}),
    ("at", long("timestamp-millis")),
    ("micros", long("timestamp-micros")),
    ("local", long("local-timestamp-millis")),
    ("locals", {"type": "map", "values": long("local-timestamp-micros")}),
    ("clock", {"type": "int", "logicalType": "time-millis"}),
    ("clocks", long("time-micros")),
    ("nanos", long("timestamp-nanos")),
    ("price", {"type": "bytes"} | DECIMAL),
    ("prices", ["null", {"type": "fixed", "name": "P", "size": 16} | DECIMAL]),
    ("uuid", {"type": "string", "logicalType": "uuid"}),
    ("wide", ["int", "null", "long"]),
    ("wider", ["float", "double"]),
    ("nothing", "null"),
    ("inner", {"type": "array", "items": record("Inner", ("day", {"type": "int", "logicalType": "date"}))}),
    namespace="all",
)
RAW = {
    "flag": True,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": 0.5,
    "double": -1e300,
    "bytes": b"\xff\0",
    "text": "größer",
    "fixed": b"abc",
    "again": b"def",
    "enum": "B",
    "day": date(1969, 12, 31),
    "days": [date(2026, 2, 28), None],
    "at": 1_700_000_000_123,
    "micros": -1,
    "local": 1_700_000_000_123,
    "locals": {"a": 1},
    "clock": 5,
    "clocks": 6,
    "nanos": 7,
    "price": Decimal("-12345678901234567890123456789012345.67"),
    "prices": Decimal("0.05"),
    "uuid": "0b5e1c5e-0000-4000-8000-000000000000",
    "wide": 3,
    "wider": 0.25,
    "nothing": None,
    "inner": [{"day": date(2000, 1, 1)}],
}
TYPES = (
    "struct<flag:boolean,int:int,long:bigint,float:float,double:double,bytes:binary,text:string,fixed:binary,"
    "again:binary,enum:string,day:date,days:array<date>,at:timestamp,micros:timestamp,local:timestamp_ntz,"
    "locals:map<string,timestamp_ntz>,clock:int,clocks:bigint,nanos:bigint,price:decimal(38,2),prices:decimal(38,2),"
    "uuid:string,wide:bigint,wider:double,nothing:void,inner:array<struct<day:date>>>"
)


def test_every_type(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(EVERYTHING))
    stored = json.loads(json.dumps(EVERYTHING))
    for field in stored["fields"]:  # the writer takes plain numbers
        if isinstance(field["type"], dict) and "timestamp" in str(field["type"]) + str(field["type"].get("values")):
            field["type"] = json.loads(json.dumps(field["type"]).replace("logicalType", "meaning"))
        if "clock" in field["name"]:
            del field["type"]["logicalType"]
    data = encoded(1, stored, RAW)
    frame = spark.createDataFrame([(data,)], "value binary").select(from_avro("value", tmp_path).alias("v"))
    assert frame.schema["v"].dataType.simpleString() == TYPES
    assert "not null" not in frame.schema["v"].dataType.json()
    assert '"nullable":false' not in frame.schema.json()
    texts = {"at": "v.at AS STRING", "micros": "v.micros AS STRING"}
    (row,) = frame.selectExpr("v", *(f"CAST({text}) AS {name}" for name, text in texts.items())).collect()
    assert (row["at"], row["micros"]) == ("2023-11-14 22:13:20.123", "1969-12-31 23:59:59.999999")
    found = row["v"].asDict(recursive=True)
    local = datetime.fromisoformat
    locals_ = {"local": local("2023-11-14T22:13:20.123"), "locals": {"a": local("1970-01-01T00:00:00.000001")}}
    assert found | {"at": None, "micros": None} == RAW | locals_ | {"at": None, "micros": None}


def test_a_union_of_several_types(spark: SparkSession, tmp_path: Path) -> None:
    union = [record("A", ("n", "int")), record("B", ("s", "string"))]
    write_schema_topic(tmp_path, [registered("u-value", 1, 1, union), registered("u-value", 2, 2, union[1])])
    values = [encoded(1, union, ("A", {"n": 1})), encoded(2, union[1], {"s": "x"})]
    if not HAS_PACKAGE:
        with pytest.raises(ConfigError, match="only Spark's own Avro package decodes an Avro union of several types"):
            decoded(spark, values, tmp_path, reader_schema=1)
        assert decoded(spark, values[1:], tmp_path) == [{"s": "x"}]
        return
    found = decoded(spark, values, tmp_path, reader_schema=1)
    assert found == [{"member0": {"n": 1}, "member1": None}, {"member0": None, "member1": {"s": "x"}}]


def test_a_value_that_nests_without_an_end_ends_no_process(spark: SparkSession, tmp_path: Path) -> None:
    node = record("Node", ("number", "int"), ("next", ["null", "Node"]))
    (tmp_path / "1.avsc").write_text(json.dumps(node))
    reader = json.dumps(record("Node", ("number", "int")))
    deep = prefix_of(1) + b"\x02\x02" * 1_000_000
    plain = encoded(1, node, {"number": 1, "next": {"number": 2, "next": None}})
    assert decoded(spark, [plain], tmp_path, reader_schema=reader) == [{"number": 1}]
    if HAS_PACKAGE:  # the limits are those of the JVM
        return
    assert decoded(spark, [deep], tmp_path, reader_schema=reader, mode="PERMISSIVE") == [None]
    with pytest.raises(ConfigError, match="the Avro type Node contains itself"):
        decoded(spark, [plain], tmp_path)


def test_many_schemas_are_decoded_by_the_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_schema_topic(tmp_path, FLIGHTS)
    monkeypatch.setattr(jvm_column, "MOST_SCHEMAS", 2)
    frame = spark.createDataFrame([(OLDEST,)], "value binary").select(from_avro("value", tmp_path, reader_schema=2))
    assert frame.collect()[0][0].number == 7
    assert "from_avro" not in str(frame)


class TestWithoutData:
    """Mistakes that are found when the column is made, and the session's setting."""

    def fails(self, match: str, schemas: Any, **options: Any) -> None:
        with pytest.raises(ConfigError, match=match):
            from_avro("value", schemas, **options)

    def test_unclear_and_missing_schemas(self, spark: SparkSession, tmp_path: Path) -> None:
        assert spark.version
        self.fails("neither the topic _schemas nor files named ID.avsc", tmp_path)
        kafka, folder = tmp_path / "kafka", tmp_path / "folder"
        write_schema_topic(kafka, [])
        self.fails("has no schema", kafka)
        write_schema_topic(kafka, FLIGHTS)
        self.fails("several schemas: set reader_schema .* are airports-value, flights-value", kafka)
        self.fails("no subject flights with a schema; its subjects with Avro are", kafka, reader_schema="flights")
        self.fails("the reader schema has the id 99, which /.*/kafka does not have", kafka, reader_schema=99)
        self.fails("the reader schema cannot be used: the schema is no JSON", kafka, reader_schema="{")
        self.fails("the mode of from_avro is 'DROPMALFORMED'", kafka, reader_schema=1, mode="DROPMALFORMED")
        folder.mkdir()
        (folder / "1.avsc").write_text('"int"')
        (folder / "2.avsc").write_text('"long"')
        self.fails("several schemas: set reader_schema", folder)

    def test_the_session_names_sparks_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyspark import __version__
        from pyspark.sql import SparkSession

        monkeypatch.setenv("PYSPARK_PYTHON", "python3")
        monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "python3")
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda builder: builder._options)
        package, setting = f"org.apache.spark:spark-avro_2.13:{__version__}", "spark.jars.packages"
        options: Any = tidelog.spark.session(master="local", avro=True)
        assert options[setting] == package
        options = tidelog.spark.session(master="local", avro=True, config={setting: "a:b:1"})
        assert options[setting] == f"a:b:1,{package}"
        options = tidelog.spark.session(master="local")
        assert setting not in options
