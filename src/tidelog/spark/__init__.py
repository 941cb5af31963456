"""Door 3: Kafka data directories as Spark tables, with no broker. ``spark.read.format("tidelog")``."""

from tidelog.spark.session_builder import session

__all__ = ["session"]
