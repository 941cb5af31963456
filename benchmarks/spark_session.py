"""Spark's side of the row spark: one warm session that counts records and value bytes, by either source.

A program for the environment with PySpark 4.0.0, the one release that Spark's own Kafka source can be fetched for. Its
lines are those of worker.py: the source's name and its options, each as NAME=VALUE; the bytes of an answer are those
of the values.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import tidelog.spark

ROOT = Path(__file__).resolve().parents[1]
CONNECTOR = ROOT / ".cache" / "spark-kafka-4.0.0"
CORES = 2


def start() -> SparkSession:
    return tidelog.spark.session(
        "benchmark",
        master=f"local[{CORES}]",
        config={
            "spark.jars": ",".join(str(jar) for jar in sorted(CONNECTOR.glob("*.jar"))),
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        },
    )


def main() -> None:
    spark = start()
    answers = os.fdopen(int(sys.argv[-1]), "w", encoding="utf-8")
    for line in sys.stdin:
        source, *pairs = line.rstrip("\n").split("\t")
        options = dict(pair.split("=", 1) for pair in pairs)
        start_ns = time.perf_counter_ns()
        try:
            table = spark.read.format(source).options(**options).load()
            ((records, value_bytes),) = table.selectExpr("count(1)", "sum(length(value))").collect()
        except Exception as error:
            print(f"error\t{type(error).__name__}: {str(error).splitlines()[0]}", file=answers, flush=True)
            raise
        print(f"{time.perf_counter_ns() - start_ns}\t{value_bytes}\t{records}", file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
