"""A program for an interpreter with PySpark: plain sessions, without preparation or an import of tidelog.

Argument 1 is a log directory with the topic flights. Argument 2 is an interpreter whose workers lack tidelog until a
file with its name and ``.whole`` exists. The last line of output is a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def plain_session() -> SparkSession:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    return builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "OFF").getOrCreate()


def main() -> None:
    log_dir, interpreter = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = interpreter
    result: dict[str, object] = {}
    spark = plain_session()
    try:
        spark.read.format("tidelog").option("logDirs", log_dir).option("subscribe", "flights").load().count()
    except Exception as error:
        result["lacking"] = str(error)
    spark.stop()
    Path(interpreter + ".whole").touch()
    spark = plain_session()  # its workers are new
    table = spark.read.format("tidelog").option("logDirs", log_dir).option("subscribe", "flights").load()
    result["count"] = table.count()
    result["filtered"] = table.where("partition = 1 and offset < 10").count()
    spark.sql(f"CREATE TEMPORARY VIEW flights USING tidelog OPTIONS (logDirs '{log_dir}', subscribe 'flights')")
    result["sql"] = spark.sql("SELECT count(*) FROM flights WHERE offset >= 0").collect()[0][0]
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
