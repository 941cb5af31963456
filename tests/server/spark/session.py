"""The Spark session for SparkClient, run by the interpreter with PySpark 4.0.0. Keys and values are text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark.oldest_session import answer

ROWS = "topic string, partition int, key string, value string, headers array<struct<key:string,value:binary>>"


class Session:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._query: StreamingQuery | None = None

    def write(self, rows: Sequence[Sequence[Any]], options: Mapping[str, str]) -> None:
        """Write a batch to the sink. ``rows`` match ``ROWS``, with headers as pairs of texts."""
        typed = [
            (*row, None if headers is None else [(name, text.encode()) for name, text in headers])
            for *row, headers in rows
        ]
        self.spark.createDataFrame(typed, ROWS).write.format("kafka").options(**options).save()

    def read(self, options: Mapping[str, str]) -> list[list[Any]]:
        """Read a batch from the source: partition, offset, timestamp in ms, key, value, headers. Sort it by offset."""
        table = self.spark.read.format("kafka").options(includeHeaders="true", **options).load()
        columns = ("partition", "offset", "unix_millis(timestamp)", "cast(key as string)", "cast(value as string)")
        found = sorted(table.selectExpr(*columns, "headers").collect(), key=lambda row: row[:2])
        return [
            [*row, headers and [(header.key, header.value.decode()) for header in headers]] for *row, headers in found
        ]

    def start(self, source: Mapping[str, str], sink: Mapping[str, str], checkpoint: str) -> None:
        """Start a stream from the broker to the broker that copies key and value."""
        rows: DataFrame = self.spark.readStream.format("kafka").options(**source).load().select("key", "value")
        writer = rows.writeStream.format("kafka").options(**sink).option("checkpointLocation", checkpoint)
        self._query = writer.start()

    def work_off(self) -> int:
        """Wait until the sink has all present records of the source. Return the number of batches with rows."""
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


if __name__ == "__main__":
    answer(Session)
