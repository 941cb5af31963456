"""Spark's types for an Avro schema, and the conversion of raw Avro values to the Python values of these types.

==========================================  ===========================================================================
Avro                                        Spark
==========================================  ===========================================================================
null, boolean, int, long, float, double     void, boolean, int, bigint, float, double
string, enum                                string
bytes, fixed                                binary; decimal with that logical type
int with ``date``                           date
long with ``timestamp-millis``, ``-micros`` timestamp
long with ``local-timestamp-…``             timestamp_ntz
array, map, record                          array, map with string keys, struct
union of null and a type                    the type
union of int and long, of float and double  bigint, double
==========================================  ===========================================================================

Other logical types count as their plain types. The types are those of Spark's own ``SchemaConverters``, all nullable. A
recursive type and other unions raise ConfigError. Schemas are self-contained documents (``inspect.avro.document``).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.inspect.avro.document import RECORDS, full_name
from tidelog.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]
LOGICAL_TYPES: Final = frozenset(
    {
        "date",
        "decimal",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    }
)
"""The logical types with a type of Spark in every release."""
_PLAIN: Final = {
    "null": "NullType",
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "fixed": "BinaryType",
    "string": "StringType",
    "enum": "StringType",
}
"""The classes of PySpark, which a worker has without a JVM."""
_WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
_MOST_DIGITS: Final = 38
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 (a local time has no zone)
_FIRST_DAY: Final = date(1970, 1, 1)


class ValueType(NamedTuple):
    """``convert`` takes a raw value that is not None. It is None if the raw value is the Python value."""

    spark: DataType
    convert: Convert | None = None


def value_type(document: Any) -> ValueType:
    """Return the type of a schema's values. Raise ConfigError for a type that Spark does not have."""
    return _Walk().of(document)


class _Walk:
    def __init__(self) -> None:
        self._done: dict[str, ValueType] = {}

    def of(self, schema: Any) -> ValueType:
        if isinstance(schema, list):
            return self._union(schema)
        kind: str = schema["type"] if isinstance(schema, dict) else schema
        if kind in RECORDS:
            return self._record(schema)
        if kind in ("array", "map"):
            return self._container(schema, kind)
        if kind not in _PLAIN:
            if kind in self._done:
                return self._done[kind]
            raise ConfigError(f"the Avro type {kind} contains itself: Spark has no recursive types")
        found = _logical(schema, kind) if isinstance(schema, dict) else None
        found = _plain(kind) if found is None else found
        if kind in ("enum", "fixed"):
            self._done[full_name(schema, "")] = found
        return found

    def _union(self, schemas: list[Any]) -> ValueType:
        kept = [one for one in schemas if one != "null" and one != {"type": "null"}]
        if not kept:
            return self.of("null")
        if len(kept) == 1:
            return self.of(kept[0])
        wider = _WIDER.get(frozenset(one["type"] if isinstance(one, dict) else one for one in kept))
        if wider is None:
            raise ConfigError(
                "only Spark's own Avro package decodes an Avro union of several types:"
                " add it to the session (tidelog.spark.session(avro=True) does), or give a reader schema without it"
            )
        return self.of(wider)

    def _record(self, schema: Any) -> ValueType:
        from pyspark.sql.types import StructType

        struct, converted = StructType(), dict[str, Convert]()
        for field in schema["fields"]:
            found = self.of(field["type"])
            struct.add(field["name"], found.spark)
            if found.convert is not None:
                converted[field["name"]] = found.convert
        done = ValueType(struct, _converting_fields(converted) if converted else None)
        self._done[full_name(schema, "")] = done
        return done

    def _container(self, schema: Any, kind: str) -> ValueType:
        from pyspark.sql.types import ArrayType, MapType, StringType

        part = self.of(schema["items" if kind == "array" else "values"])
        convert = part.convert
        if kind == "array":
            items = None if convert is None else lambda value: [one if one is None else convert(one) for one in value]
            return ValueType(ArrayType(part.spark), items)
        entries = None if convert is None else _converting_entries(convert)
        return ValueType(MapType(StringType(), part.spark), entries)


def _plain(kind: str) -> ValueType:
    from pyspark.sql import types

    return ValueType(getattr(types, _PLAIN[kind])())


def _logical(schema: Any, kind: str) -> ValueType | None:
    """Return the type for a logical type, or None if the schema has none, or a misplaced one."""
    from pyspark.sql.types import DateType, DecimalType, TimestampNTZType, TimestampType

    match kind, schema.get("logicalType"):
        case "int", "date":
            return ValueType(DateType(), lambda days: _FIRST_DAY + timedelta(days=days))
        case "long", "timestamp-millis":
            return ValueType(TimestampType(), lambda ms: _EPOCH + timedelta(milliseconds=ms))
        case "long", "timestamp-micros":
            return ValueType(TimestampType(), lambda us: _EPOCH + timedelta(microseconds=us))
        case "long", "local-timestamp-millis":
            return ValueType(TimestampNTZType(), lambda ms: _LOCAL_EPOCH + timedelta(milliseconds=ms))
        case "long", "local-timestamp-micros":
            return ValueType(TimestampNTZType(), lambda us: _LOCAL_EPOCH + timedelta(microseconds=us))
        case (("bytes" | "fixed"), "decimal"):
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision > 0:
                return None
            if precision > _MOST_DIGITS:
                raise ConfigError(f"an Avro decimal has {precision} digits: Spark has at most {_MOST_DIGITS}")
            return ValueType(DecimalType(precision, scale), lambda data: _decimal(data, precision, scale))
    return None


def _decimal(data: bytes, precision: int, scale: int) -> Decimal:
    unscaled = int.from_bytes(data, signed=True)
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"a decimal has more than {precision} digits")
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((unscaled < 0, digits, -scale))  # exact, whatever the precision of the context is


def _converting_fields(converted: dict[str, Convert]) -> Convert:
    def convert(record: dict[str, Any]) -> dict[str, Any]:
        for name, change in converted.items():
            value = record[name]
            if value is not None:
                record[name] = change(value)
        return record

    return convert


def _converting_entries(change: Convert) -> Convert:
    def convert(entries: dict[str, Any]) -> dict[str, Any]:
        return {name: value if value is None else change(value) for name, value in entries.items()}

    return convert
