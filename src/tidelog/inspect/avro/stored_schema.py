"""A schema as a registry stores it, and the wire format that names one. Pure.

::

    magic int8 (0) | schema id int32, big-endian | data

Source: Confluent's ``AbstractKafkaSchemaSerDe`` and ``SchemaValue``.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from tidelog.model import TidelogError

PREFIX_BYTES = 5
_PREFIX = struct.Struct(">bi")


class SchemaError(TidelogError):
    """A schema is missing or cannot be used, or a value does not fit it."""


class SchemaType(enum.StrEnum):
    """The registry's names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """``name`` is the type's full name; ``subject`` and ``version`` have its schema."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """``subject`` is empty for a schema of a folder. A deleted schema can still be read by its id."""

    id: int
    text: str
    subject: str = ""
    version: int = 0
    type: SchemaType = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()
    is_deleted: bool = False


def schema_id(data: bytes) -> int | None:
    """Return the schema id of a value in the wire format, or None if it cannot be one."""
    if len(data) < PREFIX_BYTES:
        return None
    magic, number = _PREFIX.unpack_from(data)
    return int(number) if magic == 0 and number >= 0 else None


def prefix_of(number: int) -> bytes:
    """Return the bytes before the data of a value with this schema id."""
    return _PREFIX.pack(0, number)
