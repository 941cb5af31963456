"""A walk over an Avro value that refuses hostile ones, before a library decodes the value.

fastavro's compiled reader follows a recursive schema as deep as the value goes, without a limit: some thousand levels
end the process. An array of a billion nulls takes no bytes at all, but much memory. So the walk checks depth, number of
items and all lengths. It also checks a schema's depth before a library parses it. Pure. Thread rule: any thread.
Source: the Avro specification 1.12, binary encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.inspect.avro.stored_schema import SchemaError

MOST_DEPTH: Final = 64
MOST_ITEMS: Final = 50_000
_MOST_SCHEMA_DEPTH: Final = 100
_MOST_SCHEMA_NODES: Final = 20_000
_VARINT_BYTES: Final = 10
_MOST_DECIMAL_BYTES: Final = 256
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_VARINTS: Final = frozenset({"int", "long"})


def check_schema(schema: object) -> None:
    """Raise SchemaError for a schema (parsed JSON) that is nested too deep or too large."""
    waiting: list[tuple[object, int]] = [(schema, 1)]
    nodes = 0
    while waiting:
        one, depth = waiting.pop()
        nodes += 1
        if depth > _MOST_SCHEMA_DEPTH or nodes > _MOST_SCHEMA_NODES:
            raise SchemaError(
                f"the schema is nested deeper than {_MOST_SCHEMA_DEPTH} levels or has more than"
                f" {_MOST_SCHEMA_NODES:,} parts"
            )
        children = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [(child, depth + 1) for child in children]


def check_value(data: bytes, position: int, schema: Any, named: Mapping[str, Any]) -> bool:
    """Raise SchemaError unless ``data`` from ``position`` on is exactly one harmless value of a parsed schema.

    Return False if its logical types must be ignored, since the value has a decimal of very many digits.
    """
    walk = _Walk(data, position, named)
    try:
        walk.value(schema, 1)
    except (AttributeError, KeyError, TypeError):
        raise SchemaError("the schema is invalid, though fastavro accepts it") from None
    if walk.at != len(data):
        raise SchemaError(f"{len(data) - walk.at:,} bytes follow the value")
    return not walk.has_long_decimal


class _Walk:
    def __init__(self, data: bytes, position: int, named: Mapping[str, Any]) -> None:
        self.at = position
        self.has_long_decimal = False
        self._data = data
        self._named = named
        self._items = 0

    def value(self, schema: Any, depth: int) -> None:
        self._items += 1
        if depth > MOST_DEPTH:
            raise SchemaError(f"the value is nested deeper than {MOST_DEPTH} levels")
        if self._items > MOST_ITEMS:
            raise SchemaError(f"the value has more than {MOST_ITEMS:,} parts")
        if isinstance(schema, list):
            self.value(schema[self._index(len(schema), "a union")], depth + 1)
            return
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case dict() | list():
                self.value(kind, depth + 1)
            case "record" | "error":
                for field in schema["fields"]:
                    self.value(field["type"], depth + 1)
            case "array" | "map":
                self._blocks(schema, kind, depth)
            case "enum":
                self._index(len(schema["symbols"]), "an enum")
            case "fixed":
                self._bytes(schema, schema["size"])
            case "bytes" | "string":
                self._bytes(schema, self._long())
            case str() if kind in _VARINTS:
                self._long()
            case str() if kind in _FIXED_SIZES:
                self._skip(_FIXED_SIZES[kind])
            case str() if kind in self._named:
                self.value(self._named[kind], depth + 1)
            case _:
                raise SchemaError(f"the schema has the unknown type {str(kind)[:100]}")

    def _blocks(self, schema: Any, kind: str, depth: int) -> None:
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the size of the block in bytes
            if count > MOST_ITEMS - self._items:
                raise SchemaError(f"the value has more than {MOST_ITEMS:,} parts")
            for _ in range(count):
                if kind == "map":
                    self._skip(self._long())
                self.value(schema["values" if kind == "map" else "items"], depth + 1)

    def _bytes(self, schema: Any, size: int) -> None:
        """Skip bytes. A long decimal is legal, but its conversion to digits takes minutes."""
        self._skip(size)
        self.has_long_decimal |= size > _MOST_DECIMAL_BYTES and isinstance(schema, dict) and "logicalType" in schema

    def _index(self, count: int, what: str) -> int:
        index = self._long()
        if not 0 <= index < count:
            raise SchemaError(f"{what} of {count} has no number {index}")
        return index

    def _skip(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self.at:
            raise SchemaError(f"a part of {size:,} bytes does not fit into the value")
        self.at += size

    def _long(self) -> int:
        encoded = 0
        for place, byte in enumerate(self._data[self.at : self.at + _VARINT_BYTES]):
            encoded |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                self.at += place + 1
                return (encoded >> 1) ^ -(encoded & 1)
        raise SchemaError("the value ends inside a number")
