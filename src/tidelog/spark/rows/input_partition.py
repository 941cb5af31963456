"""The input of a task in the class that Spark wants of a Python data source.

It is apart from ``LogSplit``, so that the planner's process need not import PySpark.
"""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from tidelog.spark.read.split import LogSplit


class LogInputPartition(LogSplit, InputPartition):
    def __init__(self, split: LogSplit) -> None:
        LogSplit.__init__(self, split.pieces, split.whole)
        InputPartition.__init__(self, None)
