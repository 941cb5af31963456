"""Kafka log directories as Spark tables without a broker: ``spark.read.format("tidelog")``."""

from tidelog.spark.session_builder import session

__all__ = ["session"]
