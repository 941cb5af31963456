"""Kafka log directories as Spark tables without a broker: ``spark.read.format("tidelog")``."""

from tidelog.spark.avro.column import from_avro
from tidelog.spark.jvm.jar import jar_path
from tidelog.spark.session_builder import session

__all__ = ["from_avro", "jar_path", "session"]
