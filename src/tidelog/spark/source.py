"""The data source Spark finds under the name ``tidelog``: options and schema in, a batch reader out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from tidelog.spark.options import ReadOptions
from tidelog.spark.reader import LogReader, PushdownLogReader
from tidelog.spark.schema import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"


class TidelogDataSource(DataSource):
    """``spark.read.format("tidelog").option("logDirs", …).option("subscribe", …).load()``"""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        return spark_schema(arrow_schema(ReadOptions.parse(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.parse(self.options)
        return PushdownLogReader(options) if _asked_by_pushdown() else LogReader(options)


def _asked_by_pushdown() -> bool:
    """Whether Spark's planner is about to push filters.

    A reader that has ``pushFilters`` fails where the setting ``spark.sql.python.filterPushdown.enabled`` is off, and a
    planning worker cannot see the setting; but Spark pushes filters from a worker module of its own.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)
