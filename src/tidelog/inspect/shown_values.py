"""Keys and values of records as people and programs see them: text, JSON, hex, base64, Avro, internal records.

===========  ==========================================================================================================
format       value
===========  ==========================================================================================================
auto         ``internal`` in an internal topic; ``avro`` if the bytes fit a known schema; text for UTF-8; else hex
text         UTF-8, invalid bytes become U+FFFD
json         the parsed value if it is an object or a list, else the text; a problem if the bytes are no JSON
hex, base64  the bytes
avro         the decoded value; with a JSON schema the parsed value; a problem if it cannot be decoded
internal     the fields of a record of an internal topic
===========  ==========================================================================================================

A long value is shortened. The bytes that hold secrets of the cluster metadata are never shown. Everything is hostile:
JSON is limited in size and depth. Thread rule: one thread.
"""

from __future__ import annotations

import enum
import json
import math
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tidelog.config.value_text import HIDDEN
from tidelog.inspect.avro.schemas import Schemas
from tidelog.inspect.avro.stored_schema import PREFIX_BYTES, SchemaError, SchemaType, schema_id
from tidelog.inspect.dump.json_payload import control_json, payload_json
from tidelog.inspect.dump.metadata_secrets import holds_secrets
from tidelog.inspect.dump.options import PayloadDecoder
from tidelog.inspect.record_scan import Piece
from tidelog.record.internal_records.text import java_text

MOST_JSON_BYTES: Final = 1024 * 1024
_MOST_DEPTH: Final = 64
_MOST_PARTS: Final = 50_000


class ValueFormat(enum.StrEnum):
    """The formats of the module's table."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"
    AVRO = "avro"
    INTERNAL = "internal"


class ShownValue(NamedTuple):
    """``value`` is one of JSON, None for a null. ``form`` names the form that it has."""

    value: Any
    form: str
    size: int | None
    """The bytes of the complete value."""
    is_shortened: bool = False
    schema: int | None = None
    problem: str = ""


NULL: Final = ShownValue(None, "null", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueShape:
    """``most_bytes`` is the length to which texts are shortened. ``schemas`` is asked at the first value that may need
    one."""

    key_format: ValueFormat = ValueFormat.AUTO
    value_format: ValueFormat = ValueFormat.AUTO
    decoder: PayloadDecoder = PayloadDecoder.PLAIN
    most_bytes: int = 4096
    schemas: Callable[[], Schemas] = lambda: Schemas({})


def shown_record(key: Piece | None, value: Piece | None, shape: ValueShape) -> tuple[ShownValue, ShownValue]:
    """Return the key and the value of a data record."""
    decoded: dict[str, Any] = {}
    if shape.decoder is not PayloadDecoder.PLAIN and _is_whole(key) and _is_whole(value):
        decoded = payload_json(shape.decoder)(_data(key), _data(value))
    may_show = shape.decoder is not PayloadDecoder.CLUSTER_METADATA or value is None or _is_open(value)
    shown = []
    for name, piece, form in (("key", key, shape.key_format), ("value", value, shape.value_format)):
        part = decoded.get(name)
        if piece is None:
            shown.append(NULL)
        elif (
            form in (ValueFormat.AUTO, ValueFormat.INTERNAL)
            and isinstance(part, dict)
            and (may_show or "fields" in part)
        ):
            shown.append(_structured(part, piece.size, "internal", shape.most_bytes))
        elif name == "value" and not may_show:
            shown.append(ShownValue(HIDDEN, "hidden", piece.size))
        else:
            shown.append(_shown(piece, form, shape))
    return shown[0], shown[1]


def shown_control(key: Piece | None, value: Piece | None, most_bytes: int) -> tuple[ShownValue, ShownValue]:
    """Return the meaning of a control record: its type as the key, and its fields."""
    control = control_json(_data(key), _data(value))["control"]
    name = control.pop("name", None)
    title = str(name).lower() if name is not None else "unknown"
    size = None if value is None else value.size
    return (
        ShownValue(title, "control", None if key is None else key.size),
        _structured(control.get("fields", control), size, "control", most_bytes),
    )


def plain_value(piece: Piece | None, most_bytes: int) -> ShownValue:
    """Return bytes that belong to no data record, such as a header's value: text for UTF-8, else hex."""
    return NULL if piece is None else _plain(piece, most_bytes)


def _is_whole(piece: Piece | None) -> bool:
    return piece is None or piece.is_whole


def _is_open(value: Piece) -> bool:
    """Return True if a value of the cluster metadata certainly has no secrets."""
    return value.is_whole and not holds_secrets(value.data)


def _data(piece: Piece | None) -> bytes | None:
    return None if piece is None else piece.data


def _shown(piece: Piece, form: ValueFormat, shape: ValueShape) -> ShownValue:
    most = shape.most_bytes
    match form:
        case ValueFormat.TEXT:
            return _text(java_text(_cut(piece, most)), piece, most, "text")
        case ValueFormat.HEX:
            return _text(piece.data[:most].hex(), piece, most, "hex")
        case ValueFormat.BASE64:
            return _text(b64encode(piece.data[:most]).decode(), piece, most, "base64")
        case ValueFormat.JSON:
            return _parsed(piece, piece.data, "json", most) or _plain(piece, most, "this is no JSON that can be shown")
        case ValueFormat.AVRO:
            return _avro(piece, shape)
        case ValueFormat.INTERNAL:
            return _plain(piece, most, "the topic has no records of a known kind")
    if schema_id(piece.data) is not None and piece.is_whole:
        found = _avro(piece, shape)
        if found.schema is not None:
            return found
    return _plain(piece, most)


def _avro(piece: Piece, shape: ValueShape) -> ShownValue:
    most, number = shape.most_bytes, schema_id(piece.data)
    if number is None or not piece.is_whole:
        reason = "the value has no schema id" if number is None else f"only values up to {MOST_JSON_BYTES:,} bytes"
        return _plain(piece, most, reason)
    schemas = shape.schemas()
    schema = schemas.by_id.get(number)
    if schema is None:
        return _plain(piece, most, f"the schema {number} is not known")
    if schema.type is SchemaType.PROTOBUF:
        return _plain(piece, most, "Protobuf is not decoded")._replace(schema=number)
    if schema.type is SchemaType.JSON:
        found = _parsed(piece, piece.data[PREFIX_BYTES:], "json", most)
        return (found or _plain(piece, most, "this is no JSON that can be shown"))._replace(schema=number)
    try:
        value = schemas.decode(number, piece.data)
    except SchemaError as error:
        return _plain(piece, most, f"schema {number}: {error.message}")._replace(schema=number)
    return _structured(value, piece.size, "avro", most)._replace(schema=number)


def _plain(piece: Piece, most: int, problem: str = "") -> ShownValue:
    """Return UTF-8 as text, else hex."""
    data = _cut(piece, most)
    try:
        shown = _text(data.decode(), piece, most, "text")
    except UnicodeDecodeError:
        shown = _text("0x" + piece.data[:most].hex(), piece, most, "hex")
    return shown._replace(problem=problem)


def _text(text: str, piece: Piece, most: int, form: str) -> ShownValue:
    return ShownValue(text, form, piece.size, is_shortened=piece.size > most)


def _parsed(piece: Piece, data: bytes, form: str, most: int) -> ShownValue | None:
    """Return parsed JSON, or None if the bytes are no JSON, or hostile JSON. Scalars keep their text."""
    if not piece.is_whole or len(data) > MOST_JSON_BYTES:
        return None
    try:
        value = json.loads(data)
        _check_json(value)
        text = data.decode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return ShownValue(text[:most], form, piece.size, is_shortened=len(text) > most)
    return _structured(value, piece.size, form, most)


def _structured(value: Any, size: int | None, form: str, most: int) -> ShownValue:
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > most:
        return ShownValue(text[:most], form, size, is_shortened=True)
    return ShownValue(value, form, size)


def _check_json(value: object) -> None:
    """Raise ValueError for JSON that is too deep or too large to be shown, or that has a number beyond all bounds."""
    waiting = [(value, 1)]
    parts = 0
    while waiting:
        one, depth = waiting.pop()
        parts += 1
        if depth > _MOST_DEPTH or parts > _MOST_PARTS or (isinstance(one, float) and not math.isfinite(one)):
            raise ValueError("the JSON is too deep, too large, or has a number that is too large")
        children = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [(child, depth + 1) for child in children]


def _cut(piece: Piece, most: int) -> bytes:
    """Return the first bytes, without an incomplete UTF-8 character at the end of a shortened value."""
    data = piece.data[:most]
    if len(data) == piece.size:
        return data
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back else data
        if byte < 0x80:
            break
    return data
