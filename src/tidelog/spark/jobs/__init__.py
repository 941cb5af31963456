"""Spark jobs over many log directories: ``python -m tidelog.spark.jobs.NAME``, or ``spark-submit``."""
