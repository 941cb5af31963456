"""Spark loads data sources by itself from modules named ``pyspark_*``: this one hands it tidelog's."""

from tidelog.spark.source import TidelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
