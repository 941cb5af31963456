"""The schemas of a registry's topic: registrations, deletions, contexts, references, hostile records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidelog.inspect.avro.registry_log import RegistryLog
from tidelog.inspect.avro.stored_schema import SchemaReference, SchemaType, schema_id


def key(subject: str, version: int, kind: str = "SCHEMA") -> bytes:
    return json.dumps({"keytype": kind, "subject": subject, "version": version, "magic": 1}).encode()


def value(subject: str, version: int, number: int, text: str = '"long"', **more: Any) -> bytes:
    fields = {"subject": subject, "version": version, "id": number, "schema": text, "deleted": False}
    return json.dumps(fields | more).encode()


def registered(*records: tuple[bytes | None, bytes | None]) -> RegistryLog:
    log = RegistryLog()
    for record in records:
        log.apply(*record)
    return log


def test_schemas_are_found_by_id_and_by_version() -> None:
    log = registered(
        (b'{"keytype":"NOOP","magic":0}', None),
        (b'{"keytype":"CONFIG","subject":"a-value","magic":0}', b'{"compatibilityLevel":"FULL"}'),
        (key("a-value", 1), value("a-value", 1, 1, '"int"')),
        (key("a-value", 2), value("a-value", 2, 2, '"long"')),
        (key("b-value", 1), value("b-value", 1, 3, "{}", schemaType="JSON")),
        (key("c-value", 1), value("c-value", 1, 4, "syntax = ...", schemaType="PROTOBUF")),
    )
    found = log.by_id()
    assert {number: schema.text for number, schema in found.items()} == {
        1: '"int"',
        2: '"long"',
        3: "{}",
        4: "syntax = ...",
    }
    assert [found[number].type for number in (2, 3, 4)] == [SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF]
    version = log.version("a-value", 2)
    assert version is not None
    assert version.id == 2
    assert log.ignored == 0


def test_deleted_schemas_stay_known_and_are_marked() -> None:
    log = registered(
        (key("soft", 1), value("soft", 1, 1)),
        (key("soft", 1), value("soft", 1, 1, deleted=True)),
        (key("hard", 1), value("hard", 1, 2)),
        (key("hard", 1), None),
        (key("whole", 1), value("whole", 1, 3)),
        (key("whole", 2), value("whole", 2, 4)),
        (key("whole", 3), value("whole", 3, 5)),
        (key("whole", 0, "DELETE_SUBJECT"), b'{"subject":"whole","version":2}'),
        (key("cleared", 1), value("cleared", 1, 6)),
        (key("cleared", 0, "CLEAR_SUBJECT"), b'{"subject":"cleared"}'),
    )
    deleted = {number: schema.is_deleted for number, schema in log.by_id().items()}
    assert deleted == {1: True, 2: True, 3: True, 4: True, 5: False, 6: True}


def test_an_id_that_is_registered_again_has_the_latest_schema() -> None:
    log = registered(
        (key("a", 1), value("a", 1, 7, '"int"')),
        (key("a", 1), None),
        (key("b", 1), value("b", 1, 7, '"string"')),
    )
    assert log.by_id()[7].text == '"string"'
    assert not log.by_id()[7].is_deleted


def test_an_id_lives_on_while_another_subject_has_it() -> None:
    log = registered(
        (key("a", 1), value("a", 1, 7)),
        (key("b", 1), value("b", 1, 7)),
        (key("a", 1), value("a", 1, 7, deleted=True)),
        (key("a", 1), None),
    )
    assert not log.by_id()[7].is_deleted


def test_the_default_context_comes_before_others() -> None:
    log = registered(
        (key(":.other:a", 1), value(":.other:a", 1, 1, '"int"')),
        (key("a", 1), value("a", 1, 1, '"long"')),
        (key(":.other:b", 1), value(":.other:b", 1, 2, '"float"')),
    )
    assert {number: schema.text for number, schema in log.by_id().items()} == {1: '"long"', 2: '"float"'}


def test_references_are_kept() -> None:
    references = [{"name": "com.Child", "subject": "child", "version": 3}, {"name": 5}, "text", None]
    log = registered((key("a", 1), value("a", 1, 1, references=references)))
    assert log.by_id()[1].references == (SchemaReference("com.Child", "child", 3),)


@pytest.mark.parametrize(
    ("record_key", "record_value"),
    [
        (None, None),
        (b"", b""),
        (b"\xff\xfe", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b'{"keytype":"SCHEMA"}', b"{}"),
        (key("a", 1), b"{}"),
        (key("a", 1), b"[1]"),
        (key("a", 1), value("a", 1, -5)),
        (key("a", 1), value("a", 1, 2**40)),
        (key("a", 1), value("a", 1, True)),
        (key("a", 1), value("a", 1, 1, schemaType="CSV")),
        (key("a", 1), json.dumps({"id": 1, "version": 1, "schema": 7}).encode()),
        (key("a", 1), b" " * 2_000_000),
    ],
)
def test_hostile_records_are_ignored(record_key: bytes | None, record_value: bytes | None) -> None:
    log = registered((record_key, record_value))
    assert log.by_id() == {}
    assert log.ignored == 1


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"\0\0\0\0\7x", 7), (b"\0\0\0\0\7", 7), (b"\0\0\0\7", None), (b"\1\0\0\0\7", None), (b"\0\xff\0\0\7", None)],
)
def test_the_prefix_of_the_wire_format(data: bytes, expected: int | None) -> None:
    assert schema_id(data) == expected
