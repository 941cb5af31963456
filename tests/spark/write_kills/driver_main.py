"""A driver: it takes jobs from stdin, a line of JSON each, and replies with the job's error or null.

A job writes rows with the sink ``dying`` of ``dying_sink`` into the topic ``t`` of a home's log directory. A ``batch``
job writes the rows that it names. A ``stream`` job writes the lines in the home's source that its query has not written
yet. Argument 1 is the master.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import tidelog.spark
from spark.write_kills.dying_sink import ORDER, DyingDataSource

CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}


def run(session: SparkSession, job: dict[str, Any]) -> None:
    home = Path(job["home"])
    options = {"logDirs": job["logs"], "topic": "t", ORDER: str(home / "order")}
    if job["sink"] == "batch":
        text = "cast(id as string)"
        frame = session.range(*job["rows"], 1, 2).selectExpr(f"{text} as key", f"{text} as value")
        frame.write.format("dying").options(**options).mode("append").save()
        return
    frame = session.readStream.text(str(home / "source")).selectExpr("value as key", "value")
    writer = frame.writeStream.format("dying").options(**options).option("checkpointLocation", str(home / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def error_of(session: SparkSession, job: dict[str, Any]) -> str | None:
    try:
        run(session, job)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main() -> None:
    session = tidelog.spark.session(master=sys.argv[1], config=CONFIG)
    session.dataSource.register(DyingDataSource)
    for line in sys.stdin:
        print(json.dumps({"error": error_of(session, json.loads(line))}), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
