"""The tables of storage records against Kafka's own message definitions, which its jars carry as JSON.

Every message of the definitions has a table, and the fields of both are the same in name, type, order, versions,
nullability, tag and default.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from real_kafka.java import CACHE, NEWEST, ensure_jars
from tidelog.record.internal_records import (
    control_tables,
    group_tables,
    metadata_tables,
    remote_tables,
    share_tables,
    transaction_tables,
)
from tidelog.record.internal_records.schema import MAX_VERSION, Field, Message, Versions

pytestmark = pytest.mark.kafka

MODULES = {
    "metadata": metadata_tables,
    "group-coordinator": group_tables,
    "share-coordinator": share_tables,
    "transaction-coordinator": transaction_tables,
    "storage": remote_tables,
}
ELSEWHERE = ("clients", "raft")
"""Modules with other messages too. Their storage records are those of ``control_tables``."""
NO_RECORDS = {"ProducerSnapshot"}
"""The snapshot has a file of its own: ``storage.producer.snapshot``."""

Flat = list[tuple[object, ...]]


def definitions(module: str) -> dict[str, dict[str, Any]]:
    """Return the JSON definitions in a jar by message name. They may have comments."""
    ensure_jars()
    found = {}
    with zipfile.ZipFile(CACHE / f"kafka-{NEWEST}" / f"kafka-{module}-{NEWEST}.jar") as jar:
        for name in jar.namelist():
            if re.fullmatch(r"(common/)?(message|metadata)/\w+\.json", name):
                text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE)
                definition = json.loads(text)
                found[definition["name"]] = definition
    return found


@pytest.mark.parametrize("module", MODULES)
def test_every_message_has_its_table(module: str) -> None:
    theirs = definitions(module)
    ours: Mapping[str, Message] = MODULES[module].MESSAGES
    assert theirs.keys() - NO_RECORDS == ours.keys()
    for name, message in ours.items():
        assert described(message) == kafkas(theirs[name]), name


def test_control_records_are_kafkas() -> None:
    theirs = {name: one for module in ELSEWHERE for name, one in definitions(module).items()}
    for name, message in control_tables.MESSAGES.items():
        assert described(message) == kafkas(theirs[name]), name


def described(message: Message) -> tuple[int, Versions, Versions, Flat]:
    return message.api_key, message.versions, message.flexible, list(flat(message.fields, message.versions))


def flat(fields: tuple[Field, ...], within: Versions, path: str = "") -> Iterator[tuple[object, ...]]:
    for field in fields:
        versions = both(field.versions, within)
        kind = f"[]{field.type}" if field.is_array else field.type
        default = [] if field.fields and not field.is_array and field.default is not None else field.default
        nullable = both(field.nullable, versions)
        yield f"{path}{field.name}", kind, versions, nullable, field.tag, default
        yield from flat(field.fields, versions, f"{path}{field.name}.")


def kafkas(definition: Mapping[str, Any]) -> tuple[int, Versions, Versions, Flat]:
    flexible = definition["flexibleVersions"]
    versions = Versions.parse(definition["validVersions"])
    structures = {one["name"]: one["fields"] for one in definition.get("commonStructs", ())}
    return (
        definition.get("apiKey", -1),
        versions,
        NEVER if flexible == "none" else Versions.parse(flexible),
        list(kafkas_fields(definition["fields"], structures, versions)),
    )


NEVER = Versions(MAX_VERSION, -1)


def kafkas_fields(
    fields: list[dict[str, Any]], structures: Mapping[str, list[dict[str, Any]]], within: Versions, path: str = ""
) -> Iterator[tuple[object, ...]]:
    for field in fields:
        name = field["name"][0].lower() + field["name"][1:]
        kind = "boolean" if field["type"] == "bool" else field["type"].replace("[]bool", "[]boolean")
        versions = both(Versions.parse(field["versions" if "versions" in field else "taggedVersions"]), within)
        nullable = both(Versions.parse(field["nullableVersions"]) if "nullableVersions" in field else NEVER, versions)
        inner = field.get("fields") or structures.get(kind.removeprefix("[]"), [])
        yield f"{path}{name}", kind, versions, nullable, field.get("tag"), default_of(field, kind)
        yield from kafkas_fields(inner, structures, versions, f"{path}{name}.")


def default_of(field: Mapping[str, Any], kind: str) -> object:
    given = field.get("default")  # Kafka's class generator does not treat an unquoted null as a default
    if given == "null":
        return None
    if kind.startswith("[]") or kind[0].isupper():
        return []
    if kind in ("string", "bytes", "records"):
        return (given or "") if kind == "string" else b""
    if kind == "uuid":
        return "AAAAAAAAAAAAAAAAAAAAAA"
    if kind == "boolean":
        return str(given).lower() == "true"
    return float(given or 0) if kind == "float64" else int(str(given or 0), 0)


def both(one: Versions, other: Versions) -> Versions:
    """Return the versions in both ranges, or NEVER if there are none."""
    first, last = max(one.first, other.first), min(one.last, other.last)
    return Versions(first, last) if first <= last else NEVER
