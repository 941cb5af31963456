"""The function ``from_avro``: it decodes each value of a column with the schema whose id the value begins with.

Spark's own Avro package decodes if the session has it, otherwise fastavro in the Python workers. Types, values and
errors are the same. The function builds an expression and reads schemas; it touches no data.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column

    from tidelog.spark.jobs.avro_schemas import Paths

_log = logging.getLogger(__name__)
_MODES: Final = ("FAILFAST", "PERMISSIVE")


def from_avro(
    column: Column | str, schemas: Paths, *, reader_schema: str | int | None = None, mode: str = "FAILFAST"
) -> Column:
    """Return the decoded values of a binary column whose values begin with 0 and a schema id.

    ``schemas`` names log directories with a registry's topic ``_schemas``, or folders with files ``ID.avsc``. They are
    read now, so a schema that is registered later is unknown. All values get the type of ``reader_schema``: a subject
    (its latest version; only its versions are decoded), an id, or JSON. It may be omitted if there is only one subject.
    Null stays null. ``mode`` decides about undecodable values: ``FAILFAST`` raises an error when the query runs,
    ``PERMISSIVE`` returns null. Raise ConfigError for missing or unclear schemas.
    """
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    from tidelog.spark.avro.jvm_column import MOST_SCHEMAS, has_spark_avro, jvm_column
    from tidelog.spark.jobs.avro_decoding import python_column
    from tidelog.spark.jobs.avro_schemas import ColumnSchemas

    if mode.upper() not in _MODES:
        raise ConfigError(f"the mode of from_avro is {mode!r}; it must be {' or '.join(_MODES)}")
    session = SparkSession.getActiveSession()
    if session is None:
        raise ConfigError("from_avro needs an active Spark session: make one first, as tidelog.spark.session() does")
    found = ColumnSchemas.read(schemas, reader_schema)
    data = (f.col(column) if isinstance(column, str) else column).cast("binary")
    is_strict = mode.upper() == "FAILFAST"
    count = len(found.writers) + len(found.unusable)
    if count <= MOST_SCHEMAS and has_spark_avro(session):
        return jvm_column(data, found, is_strict=is_strict)
    _log.info("Python workers decode Avro: %d schemas, at most %d in the JVM", count, MOST_SCHEMAS)
    return python_column(data, found, is_strict=is_strict)
