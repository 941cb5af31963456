"""A Spark session whose Python workers run this interpreter, so that they have tidelog.

Otherwise workers start ``python3`` from PATH, which is rarely the driver's environment. On Spark Connect the workers
belong to the server, and the interpreter is chosen where the server is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidelog.spark.jvm.jar import SPARK_JARS, with_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PACKAGES = "spark.jars.packages"
AVRO_PACKAGE = "org.apache.spark:spark-avro_2.13"
"""Spark's own Avro package. Its version is that of the session's Spark."""
CONNECT = "sc://"
"""The prefix of a Spark Connect server's address."""


def session(
    app_name: str = "tidelog",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    avro: bool = False,
) -> SparkSession:
    """Get or create a session that reads ``format("tidelog")``.

    ``master`` defaults to Spark's own choice (``spark.master``, or all local cores). ``sc://host:15002`` names a Spark
    Connect server, as does SPARK_REMOTE. ``config`` entries override the defaults set here: the workers' interpreter,
    UTC, and filter pushdown for Python data sources (PySpark 4.1 and up). The jar of the JVM reader, if this
    installation has it, is added to ``spark.jars``. ``avro`` adds Spark's own Avro package to ``spark.jars.packages``,
    so Spark downloads it at the first start. A Spark Connect server has its own packages.
    """
    from pyspark import __version__
    from pyspark.sql import SparkSession

    if master is None:
        master = os.environ.get("SPARK_REMOTE")
    wanted = dict(config or {})
    settings = {"spark.sql.session.timeZone": "UTC", PUSHDOWN: "true"}
    builder = SparkSession.builder.appName(app_name)
    if master is not None and master.startswith(CONNECT):
        builder = builder.remote(master)
    else:
        # The environment variable overrides spark.pyspark.python in the planning workers, so both must agree.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        settings["spark.pyspark.python"] = os.environ["PYSPARK_PYTHON"]
        jars = with_jar(wanted.get(SPARK_JARS))
        if jars is not None:
            wanted[SPARK_JARS] = jars
        if avro:
            package = f"{AVRO_PACKAGE}:{__version__}"
            wanted[PACKAGES] = f"{wanted[PACKAGES]},{package}" if PACKAGES in wanted else package
        builder = builder if master is None else builder.master(master)
    for key, value in (settings | wanted).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
