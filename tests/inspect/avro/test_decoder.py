"""Avro values that fastavro wrote, and hostile schemas and values, which harm nothing."""

from __future__ import annotations

import base64
import io
import json
import struct
import subprocess
import sys
import time
import tracemalloc
from datetime import UTC, date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema, schemaless_writer

from counted_calls import CountedCalls
from tidelog.inspect.avro.decoder import AvroDecoder
from tidelog.inspect.avro.registry_log import RegistryLog
from tidelog.inspect.avro.schemas import merged, read_schema_folder
from tidelog.inspect.avro.stored_schema import SchemaError, StoredSchema
from tidelog.inspect.avro.value_limits import MOST_DEPTH
from tidelog.storage.fs import LOCAL

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "com.shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "DONE"]}},
        {"name": "again", "type": "State"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 4}},
        {"name": "raw", "type": "bytes"},
        {"name": "ok", "type": "boolean"},
        {"name": "ratio", "type": "float"},
        {"name": "count", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
VALUE = {
    "id": 2**62,
    "note": "größer",
    "state": "DONE",
    "again": "OPEN",
    "tags": ["a", "b"],
    "prices": {"x": 1.5, "y": float("nan")},
    "digest": b"\0\1\2\3",
    "raw": b"\xff",
    "ok": True,
    "ratio": 0.5,
    "count": -3,
    "at": datetime(2024, 5, 1, 10, 30, tzinfo=UTC),
    "micros": datetime(2024, 5, 1, 10, 30, 0, 5, tzinfo=UTC),
    "day": date(2024, 5, 1),
    "clock": time_of_day(10, 30, 0, 5000),
    "price": Decimal("12.34"),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
}
SHOWN = VALUE | {
    "prices": {"x": 1.5, "y": "nan"},
    "digest": "AAECAw==",
    "raw": "/w==",
    "at": "2024-05-01T10:30:00+00:00",
    "micros": "2024-05-01T10:30:00.000005+00:00",
    "day": "2024-05-01",
    "clock": "10:30:00.005000",
    "price": "12.34",
    "uuid": "12345678-1234-5678-1234-567812345678",
}


def encoded(schema: Any, value: Any, number: int = 1) -> bytes:
    """Encode a value in the wire format with fastavro."""
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(json.loads(json.dumps(schema))), value)
    return struct.pack(">bi", 0, number) + out.getvalue()


def long(number: int) -> bytes:
    """Encode an Avro long."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def decoder(*schemas: Any) -> AvroDecoder:
    return AvroDecoder([json.dumps(schema) for schema in schemas])


def test_every_type_is_decoded() -> None:
    shown = decoder(ORDER).decode(encoded(ORDER, VALUE))
    assert shown == SHOWN
    json.dumps(shown, allow_nan=False)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("string", "text"),
        (["null", "long"], None),
        (["null", "long"], 5),
        ({"type": "array", "items": ["null", {"type": "map", "values": "string"}]}, [None, {"k": "v"}]),
        ({"type": "map", "values": "bytes"}, {}),
    ],
)
def test_schemas_that_are_no_records(schema: Any, value: Any) -> None:
    assert decoder(schema).decode(encoded(schema, value)) == value


def test_recursive_values_up_to_the_limit() -> None:
    data = b"\0\0\0\0\1" + b"\x02" * 20 + b"\0"
    shown = decoder(NODE).decode(data)
    for _ in range(20):
        shown = shown["next"]
    assert shown == {"next": None}
    with pytest.raises(SchemaError, match="deeper than"):
        decoder(NODE).decode(b"\0\0\0\0\1" + b"\x02" * MOST_DEPTH + b"\0")


def test_a_value_that_would_end_the_process_is_refused() -> None:
    """fastavro's compiled reader has no limit: this value makes it overflow the stack of the C code."""
    bomb = b"\x02" * 1_000_000 + b"\0"
    with pytest.raises(SchemaError, match="deeper than"):
        decoder(NODE).decode(b"\0\0\0\0\1" + bomb)
    code = (
        "import io, fastavro; fastavro.schemaless_reader(io.BytesIO(b'\\2' * 1000000 + b'\\0'),"
        f" fastavro.parse_schema({NODE!r}))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "array", "items": "null"}, long(2**40)),
        ({"type": "array", "items": "null"}, long(-(2**40)) + long(0)),
        ({"type": "array", "items": "null"}, (long(40_000) * 100) + long(0)),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, long(10**12)),
        ({"type": "map", "values": "null"}, long(2**40)),
        ("bytes", long(2**62)),
        ("bytes", long(-1)),
        ("string", long(10) + b"short"),
        ({"type": "fixed", "name": "F", "size": 2**40}, b""),
        ("long", b"\xff" * 11),
        ("long", b""),
        ("double", b"\0\0"),
        (["null", "long"], long(2)),
        (["null", "long"], long(-1)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(-1)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1)),
        ("null", b"rest"),
    ],
)
def test_hostile_values_are_refused_quickly(schema: Any, body: bytes) -> None:
    made = decoder(schema)
    tracemalloc.start()
    begun = time.monotonic()
    with CountedCalls() as calls, pytest.raises(SchemaError):
        made.decode(b"\0\0\0\0\1" + body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert calls.number < 400_000
    assert time.monotonic() - begun < 20
    assert peak < 8 * 1024 * 1024


def nested(depth: int) -> Any:
    schema: Any = "long"
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[" * 200_000,
        '{"type":"array","items":' * 900 + '"long"' + "}" * 900,
        json.dumps(nested(200)),
        json.dumps({"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": "long"} for n in range(9000)]}),
        '{"type":"record","name":"R","fields":[{"name":"f","type":"Missing"}]}',
        '{"type":"record","name":"R"}',
        '{"type":"record","name":"R","fields":7}',
        '{"type":"enum","name":"E","symbols":[1]}',
        '{"type":{"type":{"type":"long"}}}',
        '{"no":"type"}',
        "null",
        "7",
        '{"type":"fixed","name":"F","size":"large"}',
        '{"type":"record","name":"' + "x" * 1_100_000 + '","fields":[]}',
    ],
)
def test_hostile_schemas_raise_a_schema_error(text: str) -> None:
    try:
        made = AvroDecoder([text])
    except SchemaError:
        return
    # fastavro accepts a few odd schemas; no value of them may harm either.
    for body in (b"", b"\0", b"\2" * 100, b"\xff" * 100):
        try:
            made.decode(b"\0\0\0\0\1" + body)
        except SchemaError:
            continue


@pytest.mark.parametrize(
    ("schema", "body", "shown"),
    [
        ({"type": "int", "logicalType": "date"}, long(2**31 - 1), 2**31 - 1),
        ({"type": "long", "logicalType": "timestamp-millis"}, long(2**62), 2**62),
        ({"type": "string", "logicalType": "uuid"}, long(3) + b"abc", "abc"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10**18, "scale": 0}, long(1) + b"\7", "Bw=="),
        ({"type": "int", "logicalType": "time-millis"}, long(10**9), 10**9),
    ],
)
def test_a_logical_type_that_does_not_fit_shows_the_plain_value(schema: Any, body: bytes, shown: Any) -> None:
    assert decoder(schema).decode(b"\0\0\0\0\1" + body) == shown


def test_a_decimal_of_very_many_digits_is_shown_as_bytes() -> None:
    """The conversion of its digits would take a minute."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 10_000_000, "scale": 1}
    body = b"\x7f" * 500_000
    begun = time.monotonic()
    shown = decoder(schema).decode(b"\0\0\0\0\1" + long(len(body)) + body)
    assert shown == base64.b64encode(body).decode()
    assert time.monotonic() - begun < 20


def test_invalid_utf_8_is_replaced() -> None:
    assert decoder("string").decode(b"\0\0\0\0\1" + long(2) + b"a\xff") == "a\ufffd"


def registry(schemas: dict[str, tuple[int, Any, list[dict[str, Any]]]]) -> RegistryLog:
    """Return a registry with version 1 of each subject: its id, schema and references."""
    log = RegistryLog()
    for subject, (number, schema, references) in schemas.items():
        key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
        fields = {"subject": subject, "version": 1, "id": number, "schema": json.dumps(schema)}
        log.apply(json.dumps(key).encode(), json.dumps(fields | {"references": references}).encode())
    return log


CHILD = {"type": "record", "name": "Child", "namespace": "n", "fields": [{"name": "x", "type": "long"}]}
PARENT = {
    "type": "record",
    "name": "Parent",
    "namespace": "n",
    "fields": [{"name": "child", "type": "n.Child"}, {"name": "more", "type": {"type": "array", "items": "Child"}}],
}
REFERENCE = {"name": "n.Child", "subject": "child", "version": 1}


def test_references_to_other_schemas_are_resolved() -> None:
    log = registry({"parent": (2, PARENT, [REFERENCE]), "child": (1, CHILD, [])})
    whole = json.loads(json.dumps(PARENT))
    whole["fields"][0]["type"] = CHILD
    value = {"child": {"x": 1}, "more": [{"x": 2}]}
    schemas = merged({}, [log])
    assert schemas.decode(2, encoded(whole, value, 2)) == value
    assert schemas.decode(1, encoded(CHILD, {"x": 9})) == {"x": 9}


def test_missing_and_circular_references_are_errors() -> None:
    log = registry(
        {
            "lost": (1, PARENT, [REFERENCE | {"subject": "nowhere"}]),
            "a": (2, {"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]}, [ref("B", "b")]),
            "b": (3, {"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}, [ref("A", "a")]),
        }
    )
    schemas = merged({}, [log])
    for number in (1, 2, 3):
        for _ in range(2):  # the second time from the cache
            with pytest.raises(SchemaError):
                schemas.decode(number, b"\0\0\0\0\1\0")


def ref(name: str, subject: str) -> dict[str, Any]:
    return {"name": name, "subject": subject, "version": 1}


def test_a_long_chain_of_references_is_an_error() -> None:
    chain = {f"s{n}": (n, "long", [ref("x", f"s{n + 1}")]) for n in range(500)}
    schemas = merged({}, [registry(chain)])
    with pytest.raises(SchemaError, match="more than 100"):
        schemas.decode(0, b"\0\0\0\0\0\2")


def test_a_folder_comes_before_a_registry(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"string"')
    (tmp_path / "8.avsc").write_text('"long"')
    (tmp_path / "x.avsc").write_text("x")
    (tmp_path / "9.txt").write_text("x")
    (tmp_path / "10.avsc").mkdir()
    folder = read_schema_folder(LOCAL, tmp_path)
    assert sorted(folder) == [7, 8]
    schemas = merged(folder, [registry({"a": (7, "int", []), "b": (9, "int", [])})])
    assert {number: schema.text for number, schema in schemas.by_id.items()} == {
        7: '"string"',
        8: '"long"',
        9: '"int"',
    }
    assert schemas.decode(7, b"\0\0\0\0\7" + long(1) + b"a") == "a"


def test_without_fastavro_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro.schema", None)
    with pytest.raises(SchemaError, match=r"fastavro.*tidelog\[avro\]"):
        decoder("long")
    assert merged({1: StoredSchema(id=1, text='"long"')}, []).by_id[1].text == '"long"'
