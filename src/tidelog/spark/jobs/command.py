"""What jobs that run as programs have in common: their arguments, and rows as JSON lines.

Called by: the jobs' ``main``, for ``python -m`` and ``spark-submit``, where the command line is not needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Row


def job_parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"tidelog.spark.jobs.{name}", description=description)
    parser.add_argument("directories", nargs="+", metavar="DIR")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; repeatable")
    parser.add_argument("--master", metavar="URL", help="Spark's; not with spark-submit")
    return parser


def print_rows(rows: Iterable[Row]) -> None:
    for row in rows:
        print(json.dumps(row.asDict()))
