"""Keys and values as people see them, in every format, with hostile bytes and secrets."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from tidelog.config.value_text import HIDDEN
from tidelog.inspect.avro.schemas import Schemas
from tidelog.inspect.avro.stored_schema import SchemaType, StoredSchema
from tidelog.inspect.dump.metadata_secrets import holds_secrets
from tidelog.inspect.dump.options import PayloadDecoder
from tidelog.inspect.record_scan import Piece
from tidelog.inspect.shown_values import ShownValue, ValueFormat, ValueShape, plain_value, shown_control, shown_record
from tidelog.record.internal_records.defaults import with_defaults
from tidelog.record.internal_records.frames import encode_framed
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES

SCHEMAS = Schemas(
    {
        1: StoredSchema(id=1, text='{"type":"record","name":"R","fields":[{"name":"x","type":"long"}]}'),
        2: StoredSchema(id=2, text="{}", type=SchemaType.JSON),
        3: StoredSchema(id=3, text="syntax", type=SchemaType.PROTOBUF),
    }
)


def shown(data: bytes | None, form: str = "auto", *, size: int | None = None, most: int = 100) -> ShownValue:
    """Return a value of a topic with the schemas."""
    piece = None if data is None else Piece(data, len(data) if size is None else size)
    shape = ValueShape(value_format=ValueFormat(form), most_bytes=most, schemas=lambda: SCHEMAS)
    return shown_record(None, piece, shape)[1]


@pytest.mark.parametrize(
    ("data", "form", "value", "shown_form"),
    [
        (None, "auto", None, "null"),
        (b"", "auto", "", "text"),
        ("größer".encode(), "auto", "größer", "text"),
        (b"\xff\xfe", "auto", "0xfffe", "hex"),
        (b"a\xffb", "text", "a\ufffdb", "text"),
        (b'{"a":[1,{"b":null}]}', "json", {"a": [1, {"b": None}]}, "json"),
        (b'{"a":1}', "auto", '{"a":1}', "text"),
        (b'"text"', "json", '"text"', "json"),
        (b"17", "json", "17", "json"),
        (b"\xff\0", "hex", "ff00", "hex"),
        (b"\xff\0", "base64", "/wA=", "base64"),
        (b"\0\0\0\0\1\x54", "auto", {"x": 42}, "avro"),
        (b"\0\0\0\0\1\x54", "avro", {"x": 42}, "avro"),
        (b"\0\0\0\0\1\x54", "hex", "000000000154", "hex"),
        (b'\0\0\0\0\2{"a":1}', "auto", {"a": 1}, "json"),
        (b"\0\0\0\0\x63\x54", "auto", "\0\0\0\0cT", "text"),
    ],
)
def test_each_format(data: bytes | None, form: str, value: Any, shown_form: str) -> None:
    found = shown(data, form)
    assert (found.value, found.form, found.problem) == (value, shown_form, "")
    assert found.size == (None if data is None else len(data))


@pytest.mark.parametrize(
    ("data", "form", "problem"),
    [
        (b"text", "json", "this is no JSON"),
        (b"[" * 5000 + b"]" * 5000, "json", "this is no JSON"),
        (b"[" * 100 + b"]" * 100, "json", "this is no JSON"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "json", "this is no JSON"),
        (b"[1e999]", "json", "this is no JSON"),
        (b"[NaN]", "json", "this is no JSON"),
        (b"[" + b"1," * 60_000 + b"1]", "json", "this is no JSON"),
        (b"[" + b"9" * 5000 + b"]", "json", "this is no JSON"),
        (b"\xff[1]", "json", "this is no JSON"),
        (b"text", "avro", "the value has no schema id"),
        (b"\0\0\0\0\x63\x54", "avro", "the schema 99 is not known"),
        (b"\0\0\0\0\3\x54", "auto", "Protobuf is not decoded"),
        (b"\0\0\0\0\1\x54\x54", "auto", "schema 1: 1 bytes follow the value"),
        (b"text", "internal", "no records of a known kind"),
    ],
)
def test_values_that_do_not_fit_have_a_problem(data: bytes, form: str, problem: str) -> None:
    found = shown(data, form, most=200_000)
    assert problem in found.problem
    assert isinstance(found.value, str)
    json.dumps(found.value)


def test_lone_surrogates_in_json_survive() -> None:
    found = shown(rb'{"a":"\ud800"}', "json")
    assert found.value == {"a": "\ud800"}
    assert json.loads(json.dumps(found.value)) == found.value


@pytest.mark.parametrize("form", ["auto", "text", "json", "hex", "base64", "avro"])
def test_long_values_are_shortened(form: str) -> None:
    data = json.dumps(["ä" * 30] * 500, ensure_ascii=False).encode()
    found = shown(data, form, most=101)
    assert found.is_shortened
    assert found.size == len(data)
    assert len(found.value) <= 2 * 101
    assert "\ufffd" not in found.value


def test_a_prefix_of_a_huge_value_is_shown() -> None:
    found = shown(b"\xc3\xa4" * 50, "auto", size=10**9, most=99)
    assert (found.value, found.size, found.is_shortened) == ("ä" * 49, 10**9, True)
    assert shown(b"x" * 10, "json", size=10**9).problem
    assert shown(b"\0\0\0\0\1\x54", "avro", size=10**9).problem
    assert shown(b"\0\0\0\0\1\x54", "auto", size=10**9).form == "text"


def test_random_bytes_never_fail() -> None:
    chosen = random.Random(7)
    for _ in range(300):
        data = chosen.choice([b"", b"\0\0\0\0\1", b"[", b'{"a":']) + chosen.randbytes(chosen.randrange(40))
        for form in ValueFormat:
            for decoder in PayloadDecoder:
                shape = ValueShape(key_format=form, value_format=form, decoder=decoder, schemas=lambda: SCHEMAS)
                piece = Piece(data, len(data))
                for one in shown_record(piece, piece, shape):
                    json.dumps(one.value, allow_nan=False)
        shown_control(Piece(data, len(data)), Piece(data, len(data)), 100)


def test_control_records_have_their_type_as_the_key() -> None:
    key, value = shown_control(Piece(b"\0\0\0\1", 4), Piece(b"\0\0\0\0\0\5", 6), 100)
    assert (key.value, value.value) == ("commit", {"coordinator_epoch": 5})
    key, value = shown_control(None, None, 100)
    assert key.value == "unknown"
    assert "error" in value.value


def test_header_values() -> None:
    assert plain_value(None, 10).value is None
    assert plain_value(Piece(b"abc", 3), 10).value == "abc"
    assert plain_value(Piece(b"\xff", 1), 10).value == "0xff"
    assert plain_value(Piece(b"x" * 20, 20), 10) == ShownValue("x" * 10, "text", 20, is_shortened=True)


def metadata(message_name: str, /, **fields: Any) -> bytes:
    message = next(one for one in METADATA_TYPES.values() if one.name == message_name)
    version = message.versions.last
    return encode_framed(message, with_defaults(message, fields, version), version)


SCRAM = metadata(
    "UserScramCredentialRecord", name="bob", mechanism=1, salt=b"SALT", storedKey=b"STORED", serverKey=b"SERVER",
    iterations=4096,
)  # fmt: skip
PASSWORD = metadata(
    "ConfigRecord", resourceType=4, resourceName="1", name="ssl.keystore.password", value="PASSWORD-TEXT"
)
OPEN = metadata("ConfigRecord", resourceType=2, resourceName="t", name="retention.ms", value="5")


@pytest.mark.parametrize("form", list(ValueFormat))
@pytest.mark.parametrize("secret", [SCRAM, PASSWORD, SCRAM[:-2], b"\xff" + SCRAM, PASSWORD + b"x"])
def test_no_format_shows_a_secret(form: ValueFormat, secret: bytes) -> None:
    shape = ValueShape(key_format=form, value_format=form, decoder=PayloadDecoder.CLUSTER_METADATA, most_bytes=10_000)
    found = shown_record(None, Piece(secret, len(secret)), shape)[1]
    text = json.dumps(found.value)
    for word in (b"SALT", b"STORED", b"SERVER", b"PASSWORD-TEXT"):
        for form_of_word in (word.decode(), word.hex(), base64.b64encode(word).decode()[:-3]):
            assert form_of_word not in text
    assert HIDDEN in text
    assert holds_secrets(secret)


def test_other_metadata_is_shown_in_every_format() -> None:
    assert not holds_secrets(OPEN)
    for form in ValueFormat:
        shape = ValueShape(value_format=form, decoder=PayloadDecoder.CLUSTER_METADATA)
        found = shown_record(None, Piece(OPEN, len(OPEN)), shape)[1]
        assert HIDDEN not in json.dumps(found.value)
    assert (
        shown_record(None, Piece(OPEN, len(OPEN)), ValueShape(decoder=PayloadDecoder.CLUSTER_METADATA))[1].value[
            "fields"
        ]["value"]
        == "5"
    )
