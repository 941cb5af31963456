"""A run of a query from ``dying`` into files. The arguments are the log directory, the checkpoint and the sink."""

from __future__ import annotations

import os
import sys

import tidelog.spark
from spark.dying_source import DyingDataSource

CONFIG = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


def main() -> None:
    log_dir, checkpoint, sink = sys.argv[1:]
    os.environ["DYING_GROUP"] = str(os.getpgrp())
    session = tidelog.spark.session(master="local[2,4]", config=CONFIG)
    session.dataSource.register(DyingDataSource)
    reader = session.readStream.format("dying").option("logDirs", log_dir).option("subscribe", "t")
    frame = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "60").load()
    writer = frame.select("partition", "offset").writeStream.format("json").option("path", sink)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    session.stop()


if __name__ == "__main__":
    main()
