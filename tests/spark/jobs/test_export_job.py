"""The export job in real Spark: it writes the records of a read by topic and date, decoded on request."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from cli.runner import rows as printed
from cli.runner import run as command
from tidelog.cli.spark.export import ENCODINGS
from tidelog.model import ConfigError, InvalidRecordError, TidelogError
from tidelog.spark.jobs.decoding import Decoding, Encoding
from tidelog.spark.jobs.export import ExportOptions, export
from tidelog.spark.jobs.restore import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY_MS = 24 * 60 * 60 * 1000
VALUES = [b'{"a": 1, "b": "x"}', b'{"a": "no"}', b"no json", None, b'{"b": "y"}', b"null"]
KEYS = [b"k", b"\xff", None, b"", b"e", b"f"]
TIMES = [0, -1, DAY_MS, 1_700_000_000_000, DAY_MS - 1, 5]
JSON = Decoding(encoding=Encoding.JSON, schema="a int, b string")
TEXT = Decoding(encoding=Encoding.STRING)
AVRO = Decoding(encoding=Encoding.AVRO, schema='{"type": "record", "name": "R", "fields": []}')


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """Write ``j-0`` and ``007-1``. The latter has headers, an aborted transaction, and a name like a number."""
    path = tmp_path / "kafka"
    with tidelog.open_log(path / "j-0") as log:
        log.append_batch(VALUES, keys=KEYS, timestamps=TIMES)
    with tidelog.open_log(path / "007-1") as log:
        log.append(b"v", headers=[("h", b"1"), ("h", None)], timestamp=1)
        with log.transaction() as transaction:
            transaction.append(b"aborted", timestamp=2)
            transaction.abort()
        log.append(b"w", timestamp=3)
    return path


@pytest.fixture
def far_west(spark: SparkSession) -> Iterator[None]:
    """Set a time zone in which a day ends eight hours later than in UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(before))


def rows_of(table: DataFrame, *dropped: str) -> list[dict[str, Any]]:
    return [
        row.asDict(recursive=True) for row in table.drop(*dropped).orderBy("topic", "partition", "offset").collect()
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("far_west")
def test_an_export_has_what_a_read_has(spark: SparkSession, kafka: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    options = ExportOptions(path=str(tmp_path / "out"), read={"kafka.isolation.level": "read_committed"})
    done = export(spark, kafka, options, on_progress=lambda *now: told.append(now)).collect()
    assert [(row.topic, row.partitions, row.records) for row in done] == [("007", 1, 2), ("j", 1, 6)]
    assert (json.loads(done[0].startOffsets), json.loads(done[1].endOffsets)) == ({"007": {"1": 0}}, {"j": {"0": 6}})
    size = sum(file.stat().st_size for file in kafka.rglob("*.log"))
    assert (told[0], told[-1]) == ((0, size), (size, size))
    read = spark.read.format("tidelog").option("logDirs", str(kafka)).option("subscribePattern", ".*")
    read = read.option("kafka.isolation.level", "read_committed").option("includeHeaders", "true")
    written = read_table(spark, str(tmp_path / "out"))
    assert rows_of(written, "date") == rows_of(read.load().select([name for name in written.columns if name != "date"]))
    dates = {row.offset: row.date for row in written.where("topic = 'j'").collect()}
    day = datetime.date(1970, 1, 1)
    next_day, before = day + datetime.timedelta(1), day - datetime.timedelta(1)
    assert dates == {0: day, 1: before, 2: next_day, 3: datetime.date(2023, 11, 14), 4: day, 5: day}
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {"topic=007", "topic=j"}


@pytest.mark.spark
def test_what_cannot_be_decoded_is_kept_and_counted(spark: SparkSession, kafka: Path, tmp_path: Path) -> None:
    options = ExportOptions(path=str(tmp_path / "out"), key=TEXT, value=JSON, keeps_undecodable=True)
    (done,) = export(spark, kafka, options, topics=["j"]).collect()
    assert (done.records, done.undecodableKeys, done.undecodableValues) == (6, 1, 3)
    rows = rows_of(read_table(spark, str(tmp_path / "out")))
    assert [row["key"] for row in rows] == ["k", None, None, "", "e", "f"]
    assert [row["keyRaw"] for row in rows] == [None, b"\xff", None, None, None, None]
    assert [row["value"] for row in rows] == [{"a": 1, "b": "x"}, None, None, None, {"a": None, "b": "y"}, None]
    assert [row["valueRaw"] for row in rows] == [None, *VALUES[1:3], None, None, VALUES[5]]


@pytest.mark.spark
def test_what_fails_writes_nothing(spark: SparkSession, kafka: Path, tmp_path: Path) -> None:
    def fails(error: type[Exception], sentence: str, **given: Any) -> None:
        with pytest.raises(error, match=sentence):
            export(spark, kafka, ExportOptions(path=str(tmp_path / "out"), **given), topics=["j"])
        assert not list(tmp_path.glob("out/topic*"))

    fails(
        InvalidRecordError,
        "j-0: the value of the record at offset 1 cannot be decoded as json",
        value=JSON,
        mode="overwrite",
    )
    fails(ConfigError, "no format delta", format="delta")
    fails(ConfigError, "org.apache.spark:spark-avro_2.13", value=AVRO)
    fails(
        ConfigError, "PARSE_SYNTAX_ERROR", value=Decoding(encoding=Encoding.JSON, schema="no ddl at all"), mode="append"
    )
    fails(ConfigError, "mode and columns", read={"columns": "topic"})
    fails(ConfigError, "named twice", read={"subscribe": "j"})
    fails(ConfigError, "already exists")
    log = next((kafka / "j-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[80] ^= 1
    log.write_bytes(content)
    fails(TidelogError, f"the CRC of a batch does not match.*{log}", mode="append")
    skipped = ExportOptions(path=str(tmp_path / "out"), mode="append", read={"onCorrupt": "report"})
    (done,) = export(spark, kafka, skipped, topics=["j"]).collect()
    assert done.records == 0
    assert "CRC" in rows_of(read_table(spark, str(tmp_path / "out")))[0]["corrupt"]


@pytest.mark.spark
def test_the_command(spark: SparkSession, kafka: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema"
    schema.write_text("a int")
    out = tmp_path / "out"
    words = ("--output", out, "--value", "json", "--keep-undecodable")
    (row,) = printed("spark", "export", kafka, "-t", "j", *words, "--value-schema", f"@{schema}")
    assert (row["records"], row["undecodableValues"]) == (6, 3)
    assert "already exists" in command("spark", "export", kafka, "--output", out, code=2).stderr
    assert "cannot be read" in command("spark", "export", kafka, *words, "--value-schema", "@missing", code=2).stderr
    assert "takes a schema" in command("spark", "export", kafka, *words, code=2).stderr
    ending = ["--option", "endingTimestamp=2", "--mode", "append"]
    (row,) = printed("spark", "export", kafka, "--topic", "007", "--output", out, *ending)
    assert row["records"] == 1


def test_what_is_no_export() -> None:
    places: list[dict[str, Any]] = [{}, {"path": "p", "table": "t"}]
    for given in places:
        with pytest.raises(ConfigError, match="one of the two"):
            ExportOptions(**given)
    for encoding in Encoding:
        with pytest.raises(ConfigError, match="schema"):
            Decoding(encoding=encoding, schema=None if encoding.needs_schema else "x")
    assert tuple(Encoding) == ENCODINGS
