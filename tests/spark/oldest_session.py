"""The other side of ``oldest_process``: a session of PySpark 4.0.0 with Spark's own Kafka source, and its replies.

A line on stdin is a JSON array: the name of a method of the program's class, and its arguments by name. The reply is a
line of JSON: ``["done", result]`` or ``["failed", words]``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidelog.spark import jar_path

CONNECTOR = Path(__file__).resolve().parents[2] / ".cache" / "spark-kafka-4.0.0"


def new_session(directory: Path) -> SparkSession:
    jars = [jar_path(), *(str(jar) for jar in sorted(CONNECTOR.glob("*.jar")))]
    settings = {
        "spark.jars": ",".join(jars),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.pyspark.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable  # for the workers that plan
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def answer(program: Callable[[SparkSession], Any]) -> None:
    """Serve until stdin ends. Argument 1 is a directory for Spark's own files, 2 the descriptor for replies."""
    directory, descriptor = sys.argv[1:]
    spark = new_session(Path(directory))
    worker = program(spark)
    answers = os.fdopen(int(descriptor), "w", encoding="utf-8")
    for line in sys.stdin:
        name, arguments = json.loads(line)
        work: Callable[..., Any] = getattr(worker, name)
        try:
            reply = ["done", work(**arguments)]
        except Exception as error:
            reply = ["failed", "\n".join(_words(error))]
        print(json.dumps(reply), file=answers, flush=True)
    spark.stop()


def _words(error: Exception) -> Iterator[str]:
    """Yield Python's error, then Java's exception and each of its causes, without Java's stack traces."""
    yield from (line for line in f"{type(error).__name__}: {error}".splitlines() if not line.startswith("\tat "))
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield str(cause.toString())
        cause = cause.getCause()
