"""``tidelog spark JOB``: a job over many data directories on Spark."""

from tidelog.cli.spark.group import spark

__all__ = ["spark"]
