"""The sinks' work in this process, as Spark's workers do it: rows become staged files, reports become a commit."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType

from spark.in_process import rows
from tidelog.runtime import Clock
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.read.schema import HEADERS
from tidelog.spark.write.commit import Commits
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.staging import StagedReport, Staging, Task
from tidelog.spark.write.topic_layout import TopicLayouts
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.staged.staged_commit import PREFIX

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SPARK_TYPES = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "headers": HEADERS_TYPE,
    "note": LongType(),
}
ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "headers": HEADERS,
    "note": pa.int64(),
}

Record = Mapping[str, Any]


def query_of(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, SPARK_TYPES[name]) for name in names])


class Sink:
    """A query that writes to ``log_dir``. Rows are mappings, and the first row names the query's columns."""

    def __init__(self, log_dir: Path, *, clock: Clock = SYSTEM_CLOCK, query: str = "q", **given: object) -> None:
        options = {"logDirs": str(log_dir)} | {name.replace("__", "."): str(value) for name, value in given.items()}
        if "topic" not in given:
            options["topic"] = "t"
        self.path = log_dir
        self.options = WriteOptions.parse({name: text for name, text in options.items() if text != "None"})
        self.query = query
        self.clock = clock
        self.commits = Commits(LOCAL, self.options, clock=clock)

    def stage(
        self, *parts: Sequence[Record], batch: int | None = 0, layouts: TopicLayouts | None = None
    ) -> list[StagedReport]:
        """Stage a task for each of ``parts``. Return the reports as they come out of a worker."""
        self.commits.prepare()
        staging = Staging(LOCAL, self.options, layouts or TopicLayouts.read(LOCAL, self.options), clock=self.clock)
        reports = []
        for number, part in enumerate(parts):
            task = Task(number=number, query=self.query, batch=batch)
            reports.append(pickle.loads(pickle.dumps(staging.stage(task, self._batches(part)))))
        return reports

    def write(self, *parts: Sequence[Record], batch: int | None = 0) -> None:
        self.commits.commit(self.query, batch, self.stage(*parts, batch=batch))

    def _batches(self, part: Sequence[Record]) -> list[pa.RecordBatch]:
        if not part:
            return []
        names = list(part[0])
        schema = pa.schema([(name, ARROW_TYPES[name]) for name in names])
        columns = SinkColumns.of(query_of(names), self.options.topic)
        half = len(part) // 2
        batches = (pa.RecordBatch.from_pylist(list(some), schema=schema) for some in (part[:half], part[half:]))
        return [columns.of_batch(batch) for batch in batches]

    @property
    def staged(self) -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name.startswith(PREFIX))

    def values(self, topic: str = "t") -> dict[int, list[bytes | None]]:
        """Return the values by partition, sorted by offset. The offsets must have no gaps."""
        found: dict[int, list[dict[str, Any]]] = {}
        for row in rows(self.path, subscribe=topic):
            found.setdefault(row["partition"], []).append(row)
        for part in found.values():
            first = part[0]["offset"]
            assert [row["offset"] for row in part] == list(range(first, first + len(part)))
        return {number: [row["value"] for row in part] for number, part in found.items()}


def records(count: int, *, first: int = 0, key: bool = True) -> list[Record]:
    return [
        {"key": b"key %d" % number if key else None, "value": b"value %d" % number}
        for number in range(first, first + count)
    ]
