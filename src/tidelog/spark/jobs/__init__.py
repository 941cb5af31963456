"""Work over many log directories as Spark jobs: ``python -m tidelog.spark.jobs.NAME``, or ``spark-submit``."""
