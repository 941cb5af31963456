"""The decoder of Avro values for one schema, with fastavro.

The library comes with the extras ``avro`` and ``web``, and is imported at the first use. ``value_limits`` checks schema
and value before it sees them. Results are values of JSON: times in ISO 8601, decimals and UUIDs as text, bytes in
base64. A value whose logical types do not fit, such as a date beyond the year 9999, is decoded again without them.
Thread rule: any thread.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from tidelog.inspect.avro.document import parse_document, without_logical_types
from tidelog.inspect.avro.stored_schema import PREFIX_BYTES, SchemaError
from tidelog.inspect.avro.value_limits import check_value
from tidelog.inspect.dump.json_payload import json_value

MISSING: Final = "Avro needs the library fastavro, which the extra avro installs: pip install 'tidelog[avro]'"
_WRAPPER: Final = "_tidelog_value"


class ParsedSchema(NamedTuple):
    """fastavro's form of a schema, wrapped into a record of one field, and the definitions of all names."""

    schema: Any
    named: dict[str, Any]


class AvroDecoder:
    """A decoder for values of one schema. A schema that fastavro refuses raises SchemaError."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Parse a schema. ``texts`` has the schemas that it refers to, and the schema itself at the end."""
        self._documents = [parse_document(text) for text in texts]
        self._schema = parse_wrapped(self._documents)
        self._plain: ParsedSchema | None = None

    def decode(self, data: bytes) -> Any:
        """Return the value in ``data``, which begins with the wire format's prefix. Raise SchemaError."""
        if check_value(data, PREFIX_BYTES, self._schema.schema, self._schema.named):
            try:
                return _json(read_value(data, self._schema))
            except Exception:  # a logical type does not fit: fastavro's readers raise errors of many classes
                pass
        if self._plain is None:
            self._plain = parse_wrapped([without_logical_types(document) for document in self._documents])
        try:
            return _json(read_value(data, self._plain))
        except Exception as error:  # the walk has accepted the value, so this is fastavro's own opinion
            raise SchemaError(f"fastavro cannot read the value: {type(error).__name__}: {error}") from None


def parse_wrapped(documents: Sequence[Any]) -> ParsedSchema:
    """Return the last schema, which may use the types of those before it. Raise SchemaError if fastavro refuses it."""
    try:
        from fastavro.schema import parse_schema
    except ModuleNotFoundError:
        raise SchemaError(MISSING) from None
    named: dict[str, Any] = {}
    try:
        for document in documents[:-1]:
            parse_schema(document, named)
        # A record of one field is encoded as the field. fastavro attaches the definitions of all names to a record.
        wrapper = {"type": "record", "name": _WRAPPER, "fields": [{"name": "value", "type": documents[-1]}]}
        return ParsedSchema(parse_schema(wrapper, named), named)
    except Exception as error:  # a hostile schema: fastavro raises errors of many classes
        raise SchemaError(f"the schema is invalid: {type(error).__name__}: {error}") from None


def read_value(
    data: bytes, writer: ParsedSchema, reader: ParsedSchema | None = None, *, on_text: str = "replace"
) -> Any:
    """Return the value after the prefix, resolved into the reader schema if there is one. Ignore bytes after it.

    ``on_text`` is Python's name of the reaction to bytes that are not UTF-8. fastavro raises errors of many classes.
    """
    from fastavro import schemaless_reader

    # fastavro skips a field that the reader lacks without a look at the end. One more byte shows that it went too far.
    file = io.BytesIO(data[PREFIX_BYTES:] + b"\0")
    resolved = None if reader is None else reader.schema
    found: Any = schemaless_reader(file, writer.schema, resolved, handle_unicode_errors=on_text)
    if file.tell() > len(data) - PREFIX_BYTES:
        raise EOFError
    return found["value"]


def _json(value: Any) -> Any:
    """Convert fastavro's values to those of JSON."""
    match value:
        case dict():
            return {str(name): _json(item) for name, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case UUID():
            return str(value)
    return json_value(value)
