"""A program: a cluster whose workers have no Python reads by the JVM reader, and fails by the Python reader.

PYSPARK_PYTHON names a Python that does not exist. Argument 1 is the master, argument 2 a log directory with the topic
flights. The last line of output is a JSON object.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import tidelog.spark

SETTINGS = {
    "spark.pyspark.driver.python": sys.executable,
    "spark.jars": tidelog.spark.jar_path(),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


def main() -> None:
    master, log_dir = sys.argv[1:]
    builder = SparkSession.builder.master(master)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    reader = spark.read.format("tidelog").option("logDirs", log_dir).option("subscribe", "flights")
    found = reader.load().selectExpr("count(*)", "sum(offset)").collect()[0]
    result: dict[str, object] = {"offsets": list(found), "python": ""}
    try:
        reader.option("reader", "python").load().count()
    except Exception as error:
        result["python"] = str(error)
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
