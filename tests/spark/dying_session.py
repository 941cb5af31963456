"""A run of a query from ``dying`` into files.

The arguments are the log directory, the checkpoint, the sink and the reader.
"""

from __future__ import annotations

import os
import sys

import tidelog.spark
from spark.dying_source import DyingDataSource, dying_rows

CONFIG = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


def main() -> None:
    log_dir, checkpoint, sink, chosen = sys.argv[1:]
    os.environ["DYING_GROUP"] = str(os.getpgrp())
    session = tidelog.spark.session(master="local[2,4]", config=CONFIG)
    session.dataSource.register(DyingDataSource)
    source = "tidelog" if chosen == "jvm" else "dying"
    reader = (
        session.readStream.format(source).option("reader", chosen).option("logDirs", log_dir).option("subscribe", "t")
    )
    frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "60").load()
    rows = frame.select("partition", "offset")
    if chosen == "jvm":
        rows = rows.mapInArrow(dying_rows, rows.schema)
    writer = rows.writeStream.format("json").option("path", sink)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    session.stop()


if __name__ == "__main__":
    main()
