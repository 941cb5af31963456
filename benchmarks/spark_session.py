"""Spark's side of the rows spark and audits: a session that runs queries over a table of either source.

It is a program for the environment of the measured PySpark. Its first argument is the number of cores. Its lines are
those of worker.py: the source's name, then its options, each as NAME=VALUE. A query counts records and the bytes of
their values. With another ``mode`` it only counts rows, although Spark still takes all columns. With ``select`` it
asks for the named figures instead of the values, and the bytes are those of values of 250 bytes. With ``copyTo`` it
first writes the rows to Parquet files in that directory. The first line finds a session that is just ready.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import tidelog.spark

ROOT = Path(__file__).resolve().parents[1]
CONNECTOR = ROOT / ".cache" / f"spark-kafka-{pyspark.__version__}"
"""Spark's own Kafka source. Everything that it needs can be fetched only for 4.0.0."""

SELECTS = {
    "values": ("sum(length(value))",),
    "count": ("count(1) * 250",),
    "bounds": ("count(1) * 250", "min(offset)", "max(offset)", "max(timestamp)"),
    "earliest": ("count(1) * 250", "min(timestamp)"),
}


def start(cores: int) -> SparkSession:
    return tidelog.spark.session(
        "benchmark",
        master=f"local[{cores}]",
        config={
            "spark.jars": ",".join(str(jar) for jar in sorted(CONNECTOR.glob("*.jar"))),
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        },
    )


def main() -> None:
    spark = start(int(sys.argv[1]))
    answers = os.fdopen(int(sys.argv[-1]), "w", encoding="utf-8")
    for line in sys.stdin:
        source, *pairs = line.rstrip("\n").split("\t")
        options = dict(pair.split("=", 1) for pair in pairs)
        start_ns = time.perf_counter_ns()
        try:
            select = SELECTS[options.pop("select", "values")]
            copy = options.pop("copyTo", None)
            table = spark.read.format(source).options(**options).load()
            if copy is not None:
                table.write.parquet(copy)
            figures = ("0",) if "mode" in options else select
            ((rows, size_bytes, *_),) = table.selectExpr("count(1)", *figures).collect()
        except Exception as error:
            print(f"error\t{type(error).__name__}: {str(error).splitlines()[0]}", file=answers, flush=True)
            raise
        print(f"{time.perf_counter_ns() - start_ns}\t{size_bytes}\t{rows}", file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
