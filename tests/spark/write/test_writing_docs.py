"""docs/spark-writing.md is correct: its tables equal the code's, and its examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, manifest
from spark.write.sinks import Sink, query_of
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.write_options import EFFECTIVE, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "spark-writing.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def rows(title: str) -> list[list[str]]:
    """Return the cells of a section's table."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:3] == "| `"
    ]


def test_the_table_of_options_is_that_of_the_code() -> None:
    assert [name for name, _, _ in rows("Options")] == list(EFFECTIVE)
    given = {name: default for name, default, _ in rows("Options") if default not in ("", "required")}
    assert len(given) == 4
    assert WriteOptions.parse({"logDirs": "/d"} | given) == WriteOptions.parse({"logDirs": "/d"})


def test_the_table_of_columns_is_that_of_the_code() -> None:
    table = {name: (types, needed) for name, types, needed in rows("Columns")}
    columns = SinkColumns.of(query_of(table), None)
    assert set(columns.schema.names) == set(table)
    assert {name for name, (_, needed) in table.items() if needed.startswith("required")} == {"value", "topic"}


@pytest.mark.spark
def test_the_examples_run(spark: SparkSession, golden: GoldenFactory, tmp_path: Path) -> None:
    scope: dict[str, Any] = {}
    for source in EXAMPLES:
        code = source.replace("/var/lib/kafka", str(golden(FLIGHTS))).replace("/var/lib/", f"{tmp_path}/")
        exec(compile(code, "docs/spark-writing.md", "exec"), scope)
    copy = Sink(tmp_path / "copy")
    assert sum(map(len, copy.values("delays").values())) == 1000
    assert {number: len(values) for number, values in copy.values("flights").items()} == {
        number: manifest(FLIGHTS)[f"flights-{number}"]["read_uncommitted"]["count"] for number in range(4)
    }
