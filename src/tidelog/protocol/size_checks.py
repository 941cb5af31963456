"""A check of the sizes that a message announces, before it is decoded. Pure.

=====================  ================================================================================================
announced size         refused
=====================  ================================================================================================
items of an array      more items than remaining bytes. kio's decoder allocates memory for all of them before it reads
                       the first, and a too large allocation ends the process
bytes of a string      more than 32,767, the most that Kafka reads or writes; kio would accept 4 GiB
=====================  ================================================================================================

The decoder reports every other error in the bytes. Source: Kafka's protocol guide, KIP-482, KIP-893.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.field_reader import FieldReader
from tidelog.protocol.request_size import MOST_ITEMS, require_short_string
from tidelog.protocol.schemas import is_array, is_optional, struct_type

if TYPE_CHECKING:
    from typing_extensions import Buffer

Walk = Callable[[FieldReader], None]

_SIZES = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
_LARGE_VARINT = re.compile(rb"[\x80-\xff]{2}[\x02-\xff]")
"""The bytes of a varint of 32,768 or more. Without any, all announced sizes in a flexible version are small."""


def require_plausible_sizes(message: Any, body: Buffer, *, most_items: int = MOST_ITEMS) -> None:
    """Raise MalformedMessageError by the module's table, or if arrays announce more than ``most_items`` items together.
    ``message`` is the message's class."""
    if message.__flexible__ and _LARGE_VARINT.search(body) is None:
        return
    try:
        _struct_walk(message)(FieldReader(memoryview(body), is_flexible=message.__flexible__, most_items=most_items))
    except (IndexError, struct.error):
        return


@cache
def _struct_walk(message: Any) -> Walk:
    """Return a function that skips all fields of a struct."""
    plain = [_field_walk(field) for field in dataclasses.fields(message) if "tag" not in field.metadata]
    tagged = {
        field.metadata["tag"]: _field_walk(field) for field in dataclasses.fields(message) if "tag" in field.metadata
    }

    def walk(reader: FieldReader) -> None:
        for one in plain:
            one(reader)
        reader.tagged_fields({tag: partial(one, reader) for tag, one in tagged.items()})

    return walk


def _field_walk(field: dataclasses.Field[Any]) -> Walk:
    inner = struct_type(field.type)
    item = _plain_walk(field.metadata["kafka_type"]) if inner is None else _struct_walk(inner)
    if is_array(field.type):
        return lambda reader: _walk_items(reader, item)
    if inner is not None and is_optional(field.type):
        return lambda reader: None if reader.int8() < 0 else item(reader)
    return item


def _plain_walk(kind: str) -> Walk:
    size = _SIZES.get(kind)
    if size is not None:
        return lambda reader: reader.skip(size)
    is_short = kind == "string"

    def walk(reader: FieldReader) -> None:
        length = reader.varint() - 1 if reader.is_flexible else reader.int16() if is_short else reader.int32()
        if is_short:
            require_short_string(length)
        reader.skip(max(length, 0))

    return walk


def _walk_items(reader: FieldReader, item: Walk) -> None:
    count = reader.varint() - 1 if reader.is_flexible else reader.int32()
    if count > reader.left:
        raise MalformedMessageError(
            f"an array announces {count} items, but only {reader.left} bytes are left", position=reader.position
        )
    if count > 0:
        reader.expect_items(count)
    for _ in range(count):
        item(reader)
