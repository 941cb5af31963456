"""The decoding of a column in Confluent's wire format in Spark's Python workers, with fastavro.

It replaces Spark's own Avro package where a session lacks it, with the same types and values. fastavro comes with the
extra ``avro``. The errors of both ways have the same sentences, which are here. A sentence has the places of
``%``-formatting, which Java has, too. Thread rule: a worker calls a decoder from one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.inspect.avro.decoder import ParsedSchema, parse_wrapped, read_value
from tidelog.inspect.avro.document import is_bounded, without_logical_types
from tidelog.inspect.avro.stored_schema import PREFIX_BYTES, SchemaError, schema_id
from tidelog.inspect.avro.value_limits import check_value
from tidelog.model import InvalidRecordError
from tidelog.spark.jobs.avro_schemas import ColumnSchemas
from tidelog.spark.jobs.avro_types import Convert, value_type
from tidelog.spark.worker import reduce_with_import_hint, short_errors

if TYPE_CHECKING:
    from pyspark.sql import Column

_INSTEAD: Final = '; mode="PERMISSIVE" returns null for it'
NO_PREFIX: Final = (
    "a value of %d bytes is not in the wire format, which is a byte 0, a schema id of four bytes, then Avro" + _INSTEAD
)
NO_SCHEMA: Final = "a value has the schema id %d, which is not among the schemas of its column in %s" + _INSTEAD
UNUSABLE: Final = "a value has the schema id %d, whose schema cannot be used: %s" + _INSTEAD
UNREADABLE: Final = "a value of %d bytes does not fit its schema, which has the id %d, and the reader schema" + _INSTEAD


def python_column(column: Column, schemas: ColumnSchemas, *, is_strict: bool) -> Column:
    """Return the decoded column. Raise ConfigError for a reader schema with types that it cannot decode."""
    from pyspark.sql import functions as f

    # Arrow's transfer needs pandas in PySpark 4.0.
    decode = f.udf(ValueDecoder(schemas, is_strict), value_type(schemas.reader).spark, useArrow=False)
    return decode(column)


class _Writer(NamedTuple):
    schema: ParsedSchema
    is_bounded: bool


class ValueDecoder:
    """A function for one value. If ``is_strict``, it raises InvalidRecordError for a value that it cannot decode."""

    def __init__(self, schemas: ColumnSchemas, is_strict: bool) -> None:
        self._schemas = schemas
        self._is_strict = is_strict
        self._reader: ParsedSchema | None = None
        self._convert: Convert | None = None
        self._writers: dict[int, _Writer] = {}

    @short_errors
    def __call__(self, value: bytes | bytearray | None) -> Any:
        if value is None:
            return None
        try:
            return self._decode(bytes(value))
        except InvalidRecordError:
            if self._is_strict:
                raise
            return None

    def _decode(self, data: bytes) -> Any:
        number = schema_id(data)
        if number is None:
            raise InvalidRecordError(NO_PREFIX % len(data))
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = self._new_writer(number)
        try:
            if not writer.is_bounded:
                check_value(data, PREFIX_BYTES, writer.schema.schema, writer.schema.named)
            found = read_value(data, writer.schema, self._reader, on_text="strict")
            return found if found is None or self._convert is None else self._convert(found)
        except Exception:  # fastavro and Python's types of time raise errors of many classes
            raise InvalidRecordError(UNREADABLE % (len(data), number)) from None

    def _new_writer(self, number: int) -> _Writer:
        document = self._schemas.writers.get(number)
        if document is None:
            reason = self._schemas.unusable.get(number)
            raise InvalidRecordError(
                NO_SCHEMA % (number, self._schemas.place) if reason is None else UNUSABLE % (number, reason)
            )
        if self._reader is None:
            self._convert = value_type(self._schemas.reader).convert
            self._reader = _parsed(self._schemas.reader)
        try:
            return _Writer(_parsed(document), is_bounded(document))
        except SchemaError as error:
            raise InvalidRecordError(UNUSABLE % (number, error.message)) from None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_with_import_hint(type(self), self._schemas, self._is_strict)


def _parsed(document: Any) -> ParsedSchema:
    """Parse a schema without logical types: Spark's package takes those of the reader schema, after the resolution."""
    return parse_wrapped([without_logical_types(document)])
