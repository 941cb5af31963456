"""What bytes of keys and values mean, and the columns of an export that says so. Pure: Spark's expressions, no data.

===================  =================  ============================================  ==================================
encoding             schema             decoded                                       what cannot be decoded
===================  =================  ============================================  ==================================
``binary``           none               the bytes as they are                         nothing
``string``           none               a string                                      bytes that are not UTF-8
``json``             Spark's DDL        what the DDL says                             no JSON, or of other types
``avro``             an Avro schema     what Spark makes of the schema's types        bytes that end early
``confluent-avro``   the writers' Avro  the same; the five bytes before the data, 0   the same, and bytes that do not
                     schema             and the id of the schema, are passed over     begin with 0
===================  =================  ============================================  ==================================

The decoding is Spark's: ``try_validate_utf8``, ``from_json``, ``from_avro``. A null stays null, and counts as decoded.
Called by: the export job, on the driver.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidelog.model import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column

AVRO_PACKAGE = "org.apache.spark:spark-avro_2.13"
_DECODED = "_tidelog_decoded"
"""A field added to what is decoded, which tells a record of nulls from one that cannot be decoded."""


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
    """ConfigError for an encoding without its schema, and for a schema without need."""

    encoding: Encoding = Encoding.BINARY
    schema: str | None = None

    def __post_init__(self) -> None:
        if (self.schema is not None) != self.encoding.needs_schema:
            wanted = "a schema" if self.encoding.needs_schema else "no schema"
            raise ConfigError(f"the encoding {self.encoding} takes {wanted}")

    def decoded(self, column: Column) -> Column:
        """Null where ``column`` is, and where its bytes cannot be decoded."""
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
        """``data`` in the writer's schema, read into that schema with one field more."""
        from pyspark.sql import functions as f

        assert self.schema is not None
        wider = _with_field(self.schema)
        options = {"mode": "PERMISSIVE"} | ({} if wider is None else {"avroSchema": wider})
        pairs = [f.lit(text) for pair in options.items() for text in pair]
        record = f.call_function("from_avro", data, f.lit(self.schema), f.create_map(*pairs))
        if wider is None:
            return record
        return f.when(record.getField(_DECODED), record.dropFields(_DECODED))


AS_IT_IS = Decoding()


def _with_field(schema: str) -> str | None:
    """None where the schema is not of a record. ConfigError where it is no JSON."""
    try:
        parsed: Any = json.loads(schema)
    except ValueError as error:
        raise ConfigError(f"an Avro schema is JSON: {error}") from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        return None
    marker = {"name": _DECODED, "type": "boolean", "default": True}
    return json.dumps(parsed | {"fields": [*parsed.get("fields", []), marker]})
