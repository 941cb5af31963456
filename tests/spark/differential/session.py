"""A program for the interpreter with PySpark 4.0.0: it reads and streams from either source at a test's request.

Rows are JSON: bytes in hexadecimal, timestamps in microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from spark.oldest_session import answer


class Session:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def read(self, source: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the schema, and the rows of each partition in Spark's order."""
        table = self.spark.read.format(source).options(**options).load()
        return {"schema": table.schema.jsonValue(), "partitions": rows_by_partition(table)}

    def stream(
        self, source: str, options: Mapping[str, str], checkpoint: str, *, available_now: bool
    ) -> dict[str, dict[str, list[Any]]]:
        """Run the query once over all available data, and return the rows of each batch that has any."""
        batches: dict[str, dict[str, list[Any]]] = {}

        def take(batch: DataFrame, number: int) -> None:
            found = rows_by_partition(batch)
            if found:
                batches[str(number)] = found

        table = self.spark.readStream.format(source).options(**options).load()
        writer = table.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        query = (writer.trigger(availableNow=True) if available_now else writer).start()
        try:
            if available_now:
                query.awaitTermination()
            else:
                query.processAllAvailable()
        finally:
            query.stop()
        return batches


def rows_by_partition(table: DataFrame) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in table.selectExpr("*", "unix_micros(timestamp) as micros").drop("timestamp").collect():
        found.setdefault(f"{row.topic}-{row.partition}", []).append(_plain(row))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Row):
        return {name: _plain(part) for name, part in value.asDict().items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


if __name__ == "__main__":
    answer(Session)
