"""A program: a session reads the topic flights of a log directory in S3, as a table and as a stream.

Argument 1 is the directory's address, argument 2 a class path with Hadoop's S3A, or nothing. The variables of the AWS
tools have the service's address and keys. The last line of output is a JSON object.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

import tidelog.spark

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


def main(address: str, class_path: str) -> None:
    settings = {
        "spark.driver.extraClassPath": class_path,
        "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
        "spark.hadoop.fs.s3a.endpoint.region": os.environ["AWS_DEFAULT_REGION"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    spark = tidelog.spark.session("s3", master="local[1]", config=QUIET | settings)
    given = {"logDirs": address, "subscribe": "flights"}
    frame = spark.read.format("tidelog").options(**given).load()
    plan = io.StringIO()
    with contextlib.redirect_stdout(plan):
        frame.explain()
    result = {
        "isJvm": "ColumnarToRow" in plan.getvalue(),
        "offsets": list(frame.selectExpr("count(*)", "sum(offset)").collect()[0]),
        "error": "",
    }
    if result["isJvm"]:
        stream = spark.readStream.format("tidelog").options(**given, startingOffsets="earliest").load()
        query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
        query.awaitTermination()
        result["streamed"] = spark.table("streamed").count()
    else:
        try:
            spark.read.format("tidelog").options(**given, reader="jvm").load()
        except Exception as error:
            result["error"] = str(error)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
