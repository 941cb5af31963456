"""The encodings of keys and values, and the export columns that decode them.

===================  =================  ============================================  ==================================
encoding             schema             decoded                                       undecodable
===================  =================  ============================================  ==================================
``binary``           none               the bytes as they are                         nothing
``string``           none               a string                                      bytes that are not UTF-8
``json``             Spark's DDL        values of the DDL's types                     no JSON, or values of other types
``avro``             an Avro schema     values of Spark's types for the schema        bytes that end early
``confluent-avro``   the writers' Avro  the same; skips the five bytes before the     the same, and bytes that do not
                     schema             data, which are 0 and the schema's id         begin with 0
===================  =================  ============================================  ==================================

Spark decodes: ``try_validate_utf8``, ``from_json``, ``from_avro``. A null stays null, and counts as decoded. The
functions build Spark's expressions on the driver and touch no data.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column

_DECODED = "_tidelog_decoded"
"""A field added to the decoded value, which distinguishes a record of nulls from an undecodable one."""


class Encoding(enum.StrEnum):
    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    CONFLUENT_AVRO = "confluent-avro"

    @property
    def needs_schema(self) -> bool:
        return self in _WITH_SCHEMA


_WITH_SCHEMA = frozenset({Encoding.JSON, Encoding.AVRO, Encoding.CONFLUENT_AVRO})


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """An encoding with its schema. A missing or an unneeded schema raises ConfigError."""

    encoding: Encoding = Encoding.BINARY
    schema: str | None = None

    def __post_init__(self) -> None:
        if (self.schema is not None) != self.encoding.needs_schema:
            wanted = "a schema" if self.encoding.needs_schema else "no schema"
            raise ConfigError(f"the encoding {self.encoding} takes {wanted}")

    def decoded(self, column: Column) -> Column:
        """Return the decoded column. It is null if ``column`` is null or its bytes cannot be decoded."""
        from pyspark.sql import functions as f

        match self.encoding:
            case Encoding.BINARY:
                return column
            case Encoding.STRING:
                return f.try_validate_utf8(column.cast("string"))
            case Encoding.JSON:
                return self._from_json(column)
            case Encoding.AVRO:
                return self._from_avro(column)
            case Encoding.CONFLUENT_AVRO:
                begins_with_0 = f.substring(column, 1, 1) == f.lit(b"\0")
                return self._from_avro(f.when(begins_with_0, f.substring(column, 6, 2**31 - 1)))

    def _from_json(self, column: Column) -> Column:
        from pyspark.sql import functions as f
        from pyspark.sql.types import DataType, StructType

        assert self.schema is not None
        type_ = DataType.fromDDL(self.schema)
        text = column.cast("string")
        if not isinstance(type_, StructType):
            return f.from_json(text, type_)
        noted = StructType([*type_.fields]).add(_DECODED, "string")
        whole = f.from_json(text, noted, {"columnNameOfCorruptRecord": _DECODED})
        return f.when(whole.getField(_DECODED).isNull(), whole.dropFields(_DECODED))

    def _from_avro(self, data: Column) -> Column:
        """Decode ``data`` from the writer's schema into that schema with one more field."""
        from pyspark.sql import functions as f

        assert self.schema is not None
        wider = _with_field(self.schema)
        record = spark_from_avro(data, self.schema, wider)
        if wider is None:
            return record
        return f.when(record.getField(_DECODED), record.dropFields(_DECODED))


AS_IT_IS = Decoding()


def spark_from_avro(data: Column, writer: str, reader: str | None = None) -> Column:
    """Return the column that Spark's own package decodes. An undecodable value is null, a record with null fields."""
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE"} | ({} if reader is None else {"avroSchema": reader})
    pairs = [f.lit(text) for pair in options.items() for text in pair]
    return f.call_function("from_avro", data, f.lit(writer), f.create_map(*pairs))


def _with_field(schema: str) -> str | None:
    """Return the schema with the marker field, or None if it is no record. Raise ConfigError if it is not JSON."""
    try:
        parsed: Any = json.loads(schema)
    except ValueError as error:
        raise ConfigError(f"an Avro schema must be JSON: {error}") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        return None
    marker = {"name": _DECODED, "type": "boolean", "default": True}
    return json.dumps(parsed | {"fields": [*parsed.get("fields", []), marker]})
