"""Run by the interpreter that has PySpark 4.0.0: a session with Spark's own Kafka source and sink, asked line by line.

Argument 1 is a directory for what Spark leaves, argument 2 the file descriptor for answers. A line on stdin is a JSON
array: the name of a piece of work below, and its arguments by name. Its answer is a line of JSON: ``["done", result]``
or ``["failed", words]``. Keys and values are text.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

CONNECTOR = Path(__file__).resolve().parents[3] / ".cache" / "spark-kafka-4.0.0"
ROWS = "topic string, partition int, key string, value string, headers array<struct<key:string,value:binary>>"


class Session:
    def __init__(self, directory: Path) -> None:
        settings = {
            "spark.jars": ",".join(str(jar) for jar in sorted(CONNECTOR.glob("*.jar"))),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.sql.session.timeZone": "UTC",
            # The JVM's life is short.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
        }
        builder = SparkSession.builder.master("local[2]").appName("tests")
        for key, value in settings.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self._query: StreamingQuery | None = None

    def write(self, rows: Sequence[Sequence[Any]], options: Mapping[str, str]) -> None:
        """A batch to the sink; ``rows`` as ROWS says, headers as pairs of texts."""
        typed = [
            (*row, None if headers is None else [(name, text.encode()) for name, text in headers])
            for *row, headers in rows
        ]
        self.spark.createDataFrame(typed, ROWS).write.format("kafka").options(**options).save()

    def read(self, options: Mapping[str, str]) -> list[list[Any]]:
        """A batch from the source: partition, offset, timestamp in ms, key, value, headers; in the order of the log."""
        table = self.spark.read.format("kafka").options(includeHeaders="true", **options).load()
        columns = ("partition", "offset", "unix_millis(timestamp)", "cast(key as string)", "cast(value as string)")
        found = sorted(table.selectExpr(*columns, "headers").collect(), key=lambda row: row[:2])
        return [
            [*row, headers and [(header.key, header.value.decode()) for header in headers]] for *row, headers in found
        ]

    def start(self, source: Mapping[str, str], sink: Mapping[str, str], checkpoint: str) -> None:
        """A stream from the broker to the broker; the rows as they are, by key."""
        rows: DataFrame = self.spark.readStream.format("kafka").options(**source).load().select("key", "value")
        writer = rows.writeStream.format("kafka").options(**sink).option("checkpointLocation", checkpoint)
        self._query = writer.start()

    def work_off(self) -> int:
        """Wait until what lies in the source by now is in the sink; how many batches there have been."""
        assert self._query is not None
        self._query.processAllAvailable()
        return sum(progress.numInputRows > 0 for progress in self._query.recentProgress)

    def wait_for_a_batch(self) -> None:
        assert self._query is not None
        while not self._query.recentProgress and self._query.isActive:
            self._query.awaitTermination(0.05)

    def stop(self) -> None:
        assert self._query is not None
        self._query.stop()
        self._query = None


def main() -> None:
    directory, descriptor = sys.argv[1:]
    session = Session(Path(directory))
    answers = os.fdopen(int(descriptor), "w", encoding="utf-8")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        work: Callable[..., Any] = getattr(session, name)
        try:
            answer = ["done", work(**arguments)]
        except Exception as error:
            answer = ["failed", f"{type(error).__name__}: {error}"]
        print(json.dumps(answer), file=answers, flush=True)
    session.spark.stop()


if __name__ == "__main__":
    main()
