"""The decoder of Avro values for one schema, with fastavro.

The library comes with the extra ``web`` and is imported at the first use. ``value_limits`` checks schema and value
before it sees them. Results are values of JSON: times in ISO 8601, decimals and UUIDs as text, bytes in base64. A value
whose logical types do not fit, such as a date beyond the year 9999, is decoded again without them. Thread rule: any
thread.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

from tidelog.inspect.avro.registry_log import MOST_TEXT_BYTES
from tidelog.inspect.avro.stored_schema import PREFIX_BYTES, SchemaError
from tidelog.inspect.avro.value_limits import check_schema, check_value
from tidelog.inspect.dump.json_payload import json_value

MISSING: Final = "Avro needs the library fastavro, which the extra web installs: pip install 'tidelog[web]'"
_WRAPPER: Final = "_tidelog_value"


class _Parsed(NamedTuple):
    """fastavro's form of a schema, and the definitions of all names."""

    schema: Any
    named: dict[str, Any]


class AvroDecoder:
    """A decoder for values of one schema. A schema that fastavro refuses raises SchemaError."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Parse a schema. ``texts`` has the schemas that it refers to, and the schema itself at the end."""
        self._documents = [_document(text) for text in texts]
        self._schema = _parse(self._documents)
        self._plain: _Parsed | None = None

    def decode(self, data: bytes) -> Any:
        """Return the value in ``data``, which begins with the wire format's prefix. Raise SchemaError."""
        if check_value(data, PREFIX_BYTES, self._schema.schema, self._schema.named):
            try:
                return _json(_read(data, self._schema))
            except Exception:  # a logical type does not fit: fastavro's readers raise errors of many classes
                pass
        if self._plain is None:
            self._plain = _parse([_without_logical_types(document) for document in self._documents])
        try:
            return _json(_read(data, self._plain))
        except Exception as error:  # the walk has accepted the value, so this is fastavro's own opinion
            raise SchemaError(f"fastavro cannot read the value: {type(error).__name__}: {error}") from None


def _document(text: str) -> Any:
    if len(text) > MOST_TEXT_BYTES:
        raise SchemaError(f"the schema has more than {MOST_TEXT_BYTES:,} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is no JSON") from None
    check_schema(document)
    return document


def _parse(documents: Sequence[Any]) -> _Parsed:
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
        return _Parsed(parse_schema(wrapper, named), named)
    except Exception as error:  # a hostile schema: fastavro raises errors of many classes
        raise SchemaError(f"the schema is invalid: {type(error).__name__}: {error}") from None


def _read(data: bytes, parsed: _Parsed) -> Any:
    from fastavro import schemaless_reader

    found: Any = schemaless_reader(
        io.BytesIO(data[PREFIX_BYTES:]), parsed.schema, None, handle_unicode_errors="replace"
    )
    return found["value"]


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _without_logical_types(value) for name, value in schema.items() if name != "logicalType"}
    return [_without_logical_types(one) for one in schema] if isinstance(schema, list) else schema


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
