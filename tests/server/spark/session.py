"""Run by the interpreter that has PySpark 4.0.0: what SparkClient asks of a session. Keys and values are text."""

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


if __name__ == "__main__":
    answer(Session)
