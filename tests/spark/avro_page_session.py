"""A program for PySpark 4.0 with Spark's Avro package, Iceberg and Delta. It runs the examples of docs/spark-avro.md.

python avro_page_session.py PAGE JARS DIRECTORY: JARS is a comma list, and DIRECTORY/kafka a log directory with the
topic orders. The last line of output is a JSON object with the rows of the tables.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import tidelog.spark

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
QUIET = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1"}
TABLES = {
    "iceberg": "lake.shop.orders",
    "growing": "lake.shop.growing",
    "delta": "delta.`{}/delta/orders`",
    "latest": "delta.`{}/delta/latest`",
}


def main(page: str, jars: str, directory: str) -> None:
    spark = tidelog.spark.session(
        "recipes", master="local[1]", config=DELTA | QUIET | {"spark.jars": jars, "spark.sql.warehouse.dir": directory}
    )
    scope: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```", Path(page).read_text(), flags=re.MULTILINE | re.DOTALL):
        # The session has the package already, so nothing is downloaded.
        here = code.replace("session(avro=True)", "session()").replace("/var/lib/", f"{directory}/")
        exec(compile(here, page, "exec"), scope)
    found = {name: spark.table(table.format(directory)).toJSON().collect() for name, table in TABLES.items()}
    undecodable = [list(row) for row in scope["undecodable"].select("partition", "offset").collect()]
    print(json.dumps(found | {"undecodable": undecodable}))


if __name__ == "__main__":
    main(*sys.argv[1:])
