"""Keys and values of records as JSON values.

Plain bytes become text if they are UTF-8. Otherwise the member's name gets the suffix ``_base64``, so that a reader
never has to guess. A record of an internal topic is an object::

    {"name": "OffsetCommitValue", "number": 1, "version": 4, "fields": {…}}      fields by Kafka's names
    {"name": null, "number": 77, "version": 0, "raw": "AE0BAg=="}                unknown type or version: bytes, base64
    {"error": "the bytes end before the record does", "raw": "AAA="}             bytes that do not fit

Secrets in the cluster metadata are hidden (``metadata_secrets``). The functions are pure. Thread rule: any thread.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from tidelog.inspect.dump.metadata_secrets import without_secrets
from tidelog.inspect.dump.options import PayloadDecoder
from tidelog.inspect.dump.payload_text import COORDINATOR_TYPES, open_consumer_protocol
from tidelog.model import TidelogError
from tidelog.record.control import ControlType, EndTransactionMarker, control_type_id
from tidelog.record.internal_records.frames import (
    DecodedRecord,
    KeyValueMessages,
    decode_framed,
    decode_key,
    decode_value,
)
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES
from tidelog.record.internal_records.remote_tables import REMOTE_LOG_TYPES
from tidelog.record.internal_records.schema import Message
from tidelog.record.quorum import quorum_fields

Json = dict[str, Any]
PayloadJson = Callable[[bytes | None, bytes | None], Json]


def payload_json(decoder: PayloadDecoder) -> PayloadJson:
    """Return a function from key and value to the object's members ``key`` and ``value`` or their ``_base64``."""
    types = COORDINATOR_TYPES.get(decoder)
    if types is not None:
        return lambda key, value: _coordinator_json(types, key, value)
    if decoder is PayloadDecoder.CLUSTER_METADATA:
        return lambda key, value: named_bytes("key", key) | {"value": _metadata_json(value)}
    if decoder is PayloadDecoder.REMOTE_LOG_METADATA:
        return lambda key, value: named_bytes("key", key) | {"value": _framed_json(REMOTE_LOG_TYPES, value)}
    return lambda key, value: named_bytes("key", key) | named_bytes("value", value)


def named_bytes(name: str, data: bytes | None) -> Json:
    """Return ``{name: text}`` for UTF-8 and for null, else ``{name_base64: …}``."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64(data)}


def control_json(key: bytes | None, value: bytes | None) -> Json:
    """Return the members for a control record: ``control`` with its type, or with an error if it is unreadable."""
    try:
        number = control_type_id(key)
        known = {int(member): member for member in ControlType if member is not ControlType.UNKNOWN}.get(number)
        if known in (ControlType.ABORT, ControlType.COMMIT):
            marker = EndTransactionMarker.parse(key, value)
            return {"control": {"name": marker.type.name, "coordinator_epoch": marker.coordinator_epoch}}
        if known is None:
            return {"control": {"name": None, "number": number}} | _raw(value)
        return {"control": {"name": known.name, "fields": json_value(quorum_fields(known, value))}}
    except TidelogError as error:
        return {"control": {"error": error.message}} | _raw(value)


def json_value(value: Any) -> Any:
    """Convert a decoded value to JSON: bytes become base64, and numbers that JSON cannot hold become text."""
    if isinstance(value, dict):
        return {name: json_value(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return base64(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def base64(data: bytes) -> str:
    return b64encode(data).decode()


def _raw(value: bytes | None) -> Json:
    return {"raw": None if value is None else base64(value)}


def _coordinator_json(types: Mapping[int, KeyValueMessages], key: bytes | None, value: bytes | None) -> Json:
    if key is None:
        return {
            "key": None,
            "value": None
            if value is None
            else {"error": "the record has no key, which would name its type"} | _raw(value),
        }
    try:
        decoded = decode_key(types, key)
    except TidelogError as error:
        return {"key": {"error": error.message} | _raw(key), "value": None if value is None else _raw(value)}
    return {"key": _decoded_json(decoded), "value": _value_json(types, decoded.number, value)}


def _value_json(types: Mapping[int, KeyValueMessages], number: int, value: bytes | None) -> Json | None:
    if value is None:
        return None
    try:
        decoded = decode_value(types, number, value)
    except TidelogError as error:
        return {"error": error.message} | _raw(value)
    if decoded.name == "GroupMetadataValue" and decoded.fields is not None:
        open_consumer_protocol(decoded.fields)
    return _decoded_json(decoded)


def _metadata_json(value: bytes | None) -> Json | None:
    shown = _framed_json(METADATA_TYPES, value)
    if shown is not None and "fields" in shown:
        shown["fields"] = without_secrets(shown["name"], shown["fields"])
    return shown


def _framed_json(types: Mapping[int, Message], value: bytes | None) -> Json | None:
    if value is None:
        return None
    try:
        return _decoded_json(decode_framed(types, value))
    except TidelogError as error:
        return {"error": error.message} | _raw(value)


def _decoded_json(decoded: DecodedRecord) -> Json:
    head: Json = {"name": decoded.name, "number": decoded.number, "version": decoded.version}
    if decoded.fields is None:
        return head | _raw(decoded.raw)
    return head | {"fields": json_value(decoded.fields)}
