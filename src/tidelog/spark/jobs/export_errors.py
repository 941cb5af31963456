"""The translation of Spark's errors in an export to tidelog's: one sentence, without a Java stack.

===========================================  ==========================================================================
Spark's error                                tidelog's error
===========================================  ==========================================================================
the session lacks the format, or from_avro   ConfigError that names the missing package
any other error in the request               ConfigError with the first line: the path exists, a schema is invalid
tidelog's own error, raised by a reader      TidelogError with the same sentence
an undecodable value (``raise_error``)       InvalidRecordError with tidelog's sentence
any other error                              unchanged
===========================================  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.model import ConfigError, InvalidRecordError, TidelogError
from tidelog.spark.session_builder import AVRO_PACKAGE, PACKAGES

_NO_FORMAT = "DATA_SOURCE_NOT_FOUND"
NO_AVRO = "AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE"
"""Spark's error condition of a session without its Avro package."""
_SQL_STATE = " SQLSTATE: P0001"
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*)")
_NO_SCHEMA = re.compile(r"org\.apache\.avro\.\w*Exception: (.*)")
_OURS = re.compile(r"(?:^tidelog\.model\.errors\.\w+|tidelog\.spark\.[\w$]+Exception): (.*)$", re.MULTILINE)
"""The Python reader's error, or the JVM reader's."""


@contextmanager
def translated_errors(format_name: str) -> Iterator[None]:
    try:
        yield
    except TidelogError:
        raise
    except Exception as error:  # some come as Java's own exceptions
        ours = _ours(error, format_name)
        if ours is None:
            raise
        raise ours from None


def _ours(error: Exception, format_name: str) -> TidelogError | None:
    from pyspark.errors import AnalysisException

    text = str(error)
    if (found := _RAISED.search(text)) is not None:
        return InvalidRecordError(found[1].removesuffix(_SQL_STATE))
    if (found := _OURS.search(text)) is not None:
        return TidelogError(found[1])
    if _NO_FORMAT in text:
        return ConfigError(f"this Spark session has no format {format_name}: add its package to {PACKAGES}")
    if NO_AVRO in text:
        return ConfigError(f"this Spark session has no Avro: add {AVRO_PACKAGE}:VERSION to {PACKAGES}")
    if (found := _NO_SCHEMA.search(text)) is not None:
        return ConfigError(f"an Avro schema is invalid: {found[1]}")
    if isinstance(error, AnalysisException):
        return ConfigError(text.strip().splitlines()[0])
    return None
