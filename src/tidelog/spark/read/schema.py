"""The tables of ``format("tidelog")`` in the types of Arrow and of Spark.

The Arrow schema of a reader's batches must match the declared schema exactly. So each table is defined once, in
``table_columns``, and both forms are derived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.spark.read import table_columns
from tidelog.spark.read.table_columns import Columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "headers": HEADERS,
}


def arrow_schema(columns: Columns) -> pa.Schema:
    """Return a table in Arrow's types."""
    return pa.schema([pa.field(column.name, _TYPES[column.kind]) for column in columns])


TABLES = {mode: arrow_schema(columns) for mode, columns in table_columns.TABLES.items()}
"""The tables over the storage, as ``table_columns.TABLES``."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the same table in Spark's types."""
    from pyspark.sql import types as spark

    simple = {
        pa.binary(): spark.BinaryType(),
        pa.string(): spark.StringType(),
        pa.int32(): spark.IntegerType(),
        pa.int64(): spark.LongType(),
        pa.bool_(): spark.BooleanType(),
        pa.timestamp("us", tz="UTC"): spark.TimestampType(),
        HEADERS: spark.ArrayType(
            spark.StructType(
                [spark.StructField("key", spark.StringType()), spark.StructField("value", spark.BinaryType())]
            )
        ),
    }
    return spark.StructType([spark.StructField(field.name, simple[field.type], nullable=True) for field in schema])
