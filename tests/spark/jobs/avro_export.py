"""A program for PySpark 4.0 with Spark's Avro package: it exports a topic in both forms of Avro and prints rows.

python avro_export.py JAR KAFKA OUTPUT
"""

from __future__ import annotations

import json
import sys

import tidelog.spark
from tidelog.spark.jobs.decoding import Decoding, Encoding
from tidelog.spark.jobs.export import ExportOptions, export
from tidelog.spark.jobs.restore import read_table

SCHEMA = """{
    "type": "record",
    "name": "R",
    "fields": [{"name": "n", "type": "int"}, {"name": "s", "type": ["null", "string"]}]
}"""


def main(jar: str, kafka: str, output: str) -> None:
    spark = tidelog.spark.session(
        "avro",
        master="local[1]",
        config={"spark.jars": jar, "spark.ui.enabled": "false", "spark.log.level": "OFF"},
    )
    for encoding in (Encoding.AVRO, Encoding.CONFLUENT_AVRO):
        path = f"{output}/{encoding}"
        options = ExportOptions(path=path, value=Decoding(encoding=encoding, schema=SCHEMA), keeps_undecodable=True)
        (done,) = export(spark, kafka, options).collect()
        rows = read_table(spark, path).orderBy("offset").collect()
        values = [row.value and row.value.asDict() for row in rows]
        print(json.dumps([encoding, done.undecodableValues, values]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
