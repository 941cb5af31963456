"""The decoding of a column in Confluent's wire format by Spark's own Avro package, which runs in the JVM.

Spark's ``from_avro`` takes one writer's schema. So the expression chooses among several ``from_avro``, one for each
schema, by the five bytes before the data. Reader and writer are wrapped into records of one field, which are encoded
like the field. The reader's record has one more field with a default, so a decoded null differs from undecodable bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tidelog.inspect.avro.stored_schema import PREFIX_BYTES, prefix_of
from tidelog.spark.jobs.avro_decoding import NO_PREFIX, NO_SCHEMA, UNREADABLE, UNUSABLE
from tidelog.spark.jobs.avro_schemas import ColumnSchemas
from tidelog.spark.jobs.decoding import spark_from_avro
from tidelog.spark.jobs.export_errors import NO_AVRO

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

MOST_SCHEMAS: Final = 500
"""Spark plans an expression for each schema; with more of them the Python workers decode."""
_INT_MAX: Final = 2**31 - 1
_VALUE: Final = "value"
_DECODED: Final = "decoded"
_WRAPPER: Final = "tidelog_value"
_MARKER: Final = {"name": _DECODED, "type": "boolean", "default": True}


def has_spark_avro(session: SparkSession) -> bool:
    """Return True if a session has Spark's Avro package. Spark Connect has no other way to find out than to ask."""
    from pyspark.sql import functions as f

    try:
        _ = session.range(0).select(spark_from_avro(f.lit(b""), '"int"')).schema
    except Exception as error:  # PySpark's class depends on the kind of session
        if NO_AVRO in str(error):
            return False
        raise
    return True


def jvm_column(column: Column, schemas: ColumnSchemas, *, is_strict: bool) -> Column:
    """Return the decoded column."""
    from pyspark.sql import functions as f

    record = _record(column, schemas)
    value = record.getField(_VALUE)
    if not is_strict:
        return value
    # A condition on the record would decode values twice. It is needed only if null may be a decoded value.
    is_undecodable = column.isNotNull()
    if _may_be_null(schemas.reader):
        is_undecodable &= record.getField(_DECODED).isNull()
    return f.coalesce(value, f.when(is_undecodable, f.raise_error(_problem(column, schemas))))


def _record(column: Column, schemas: ColumnSchemas) -> Column:
    """Return the wrapper of the decoded value. Its fields are null if the value is undecodable."""
    from pyspark.sql import functions as f

    prefix, data = f.substring(column, 1, PREFIX_BYTES), f.substring(column, PREFIX_BYTES + 1, _INT_MAX)
    reader = _wrapped(schemas.reader, _MARKER)
    # This branch is never taken. It gives the column its type even if there is no writer's schema.
    chosen = f.when(f.lit(False), spark_from_avro(data, reader))
    for writer, numbers in _ids_by_schema(schemas).items():
        has_schema = prefix.isin([f.lit(prefix_of(number)) for number in numbers])
        chosen = chosen.when(has_schema, spark_from_avro(data, writer, reader))
    return chosen


def _may_be_null(document: Any) -> bool:
    return "null" in (document if isinstance(document, list) else [document])


def _ids_by_schema(schemas: ColumnSchemas) -> dict[str, list[int]]:
    """Return the ids of each wrapped writer's schema. Schemas of several subjects may be the same."""
    found: dict[str, list[int]] = {}
    for number, document in schemas.writers.items():
        found.setdefault(_wrapped(document), []).append(number)
    return found


def _wrapped(document: Any, *more: Any) -> str:
    fields = [{"name": _VALUE, "type": document}, *more]
    return json.dumps({"type": "record", "name": _WRAPPER, "fields": fields})


def _problem(column: Column, schemas: ColumnSchemas) -> Column:
    """Return the sentence about a value that cannot be decoded."""
    from pyspark.sql import functions as f

    length = f.length(column)
    number = f.conv(f.hex(f.substring(column, 2, PREFIX_BYTES - 1)), 16, 10).cast("long")
    is_prefixed = (length >= PREFIX_BYTES) & (f.substring(column, 1, 1) == f.lit(b"\0")) & (number <= _INT_MAX)
    problem = f.when(~is_prefixed, f.format_string(NO_PREFIX, length))
    for unusable, reason in schemas.unusable.items():
        problem = problem.when(number == unusable, f.format_string(UNUSABLE, number, f.lit(reason)))
    is_known = number.isin([*schemas.writers]) if schemas.writers else f.lit(False)
    problem = problem.when(~is_known, f.format_string(NO_SCHEMA, number, f.lit(schemas.place)))
    return problem.otherwise(f.format_string(UNREADABLE, length, number))
