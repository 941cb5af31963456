"""docs/spark.md is correct: its tables equal the code's, and its examples run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS
from spark.in_process import options_of
from tidelog.spark.read.options import (
    EFFECTIVE,
    ENDING,
    IGNORED,
    KNOWN,
    STREAM_ONLY,
    OnCorrupt,
    ReadOptions,
    ReplicaChoice,
    Until,
)
from tidelog.spark.read.table_columns import Mode, columns_of
from tidelog.spark.stream.stream_options import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()
EXAMPLES = re.findall(r"^```(python|sql)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table line that begins with code."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:3] == "| `"]


def test_the_table_of_options_is_that_of_the_code() -> None:
    options = section("Options")
    assert [row[0].strip("`") for row in rows(options)] == list(EFFECTIVE)
    prose = options.partition("Accepted, without effect")[2]
    assert [name for name in re.findall(r"`([\w.]+)`", prose) if name in KNOWN] == [*IGNORED, *STREAM_ONLY]


def test_the_table_of_a_streams_options_is_that_of_the_code() -> None:
    table = rows(section("Streams"))
    assert [row[0].strip("`") for row in table] == ["startingOffsets", *ENDING, "mode", "replica", *STREAM_ONLY]
    given = {row[0].strip("`"): row[1].strip("`") for row in table if row[1].startswith("`")}
    assert len(given) == 4
    assert StreamOptions.parse(options_of("d") | given) == StreamOptions.parse(options_of("d"))


def test_defaults_are_those_of_the_code() -> None:
    given = {row[0].strip("`"): row[1].strip("`") for row in rows(section("Options")) if row[1].startswith("`")}
    parsed, default = ReadOptions.parse(options_of("d") | given), ReadOptions.parse(options_of("d"))
    assert parsed.asks_for_checksums, "a given default differs from an omitted one, as the page says"
    assert dataclasses.replace(parsed, asks_for_checksums=False) == default
    assert len(given) > 10


def test_words_of_options_are_those_of_the_code() -> None:
    meaning = {row[0].strip("`"): row[2] for row in rows(section("Options"))}
    for option, words in (("onCorrupt", OnCorrupt), ("mode", Mode), ("until", Until), ("replica", ReplicaChoice)):
        assert set(re.findall(r"`(\w+)`", meaning[option])) == {word.value for word in words}
    ends = [row[0].strip("`") for row in rows(section("Where a read ends"))]
    assert ends == ["until", *(word.value for word in Until)]


def test_the_columns_are_those_of_the_code() -> None:
    table = rows(section("Columns"))
    assert [row[0].strip("`") for row in table] == list(columns_of(Mode.RECORDS))
    options = options_of("d", includeHeaders="true", includeBatchMetadata="true", onCorrupt="report")
    from tidelog.spark.read.schema import spark_schema

    schema = spark_schema(ReadOptions.parse(options).arrow_schema)
    assert [row[1] for row in table] == [field.dataType.simpleString() for field in schema]


@pytest.mark.slow
@pytest.mark.spark
def test_the_examples_run(
    spark: SparkSession, golden: GoldenFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(EXAMPLES) >= 7
    scope: dict[str, Any] = {}
    for language, source in EXAMPLES:
        code = source.replace("/var/lib/kafka", str(golden(FLIGHTS))).replace("s3a://backup", str(tmp_path))
        if language == "python":
            exec(compile(code, "docs/spark.md", "exec"), scope)
        else:
            for statement in code.split(";\n"):
                if statement.strip():
                    spark.sql(statement).collect()
    printed = capsys.readouterr().out
    assert "records of aborted or open transactions" in printed
    assert "flights-eos" in printed
