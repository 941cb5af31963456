"""Log directories with a registry's topic ``_schemas``, and values in Confluent's wire format."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastavro import parse_schema, schemaless_writer

import tidelog
from tidelog.inspect.avro.stored_schema import prefix_of

Record = tuple[bytes, bytes | None]


def registered(subject: str, version: int, number: int, schema: Any, **more: Any) -> Record:
    """Return the record of a registration. ``schema`` is parsed JSON, or the text of another type of schema."""
    text = schema if "schemaType" in more else json.dumps(schema)
    fields = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False}
    return _key(subject, version), json.dumps(fields | more).encode()


def hard_deleted(subject: str, version: int) -> Record:
    return _key(subject, version), None


def _key(subject: str, version: int) -> bytes:
    return json.dumps({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}).encode()


def write_schema_topic(log_dir: Path, records: Iterable[Record]) -> None:
    with tidelog.open_log(log_dir / "_schemas-0") as log:
        for key, value in records:
            log.append(value, key=key)


def encoded(number: int, schema: Any, value: Any, *others: Any) -> bytes:
    """Return a value in the wire format. ``others`` are schemas that ``schema`` refers to."""
    named: dict[str, Any] = {}
    for other in others:
        parse_schema(other, named)
    file = io.BytesIO()
    schemaless_writer(file, parse_schema(schema, named), value)
    return prefix_of(number) + file.getvalue()
