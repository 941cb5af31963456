"""The schemas in a Schema Registry's topic ``_schemas``, by replaying its records.

==================================  ===================================================================================
key                                 value
==================================  ===================================================================================
``keytype`` SCHEMA, with subject    the schema with its id; ``deleted`` true for a soft deletion; null for a hard one
and version
DELETE_SUBJECT                      all versions up to ``version`` are soft-deleted
CLEAR_SUBJECT                       all versions are hard-deleted
others (CONFIG, MODE, NOOP)         ignored
==================================  ===================================================================================

Records that were written with a deleted schema still need it. So it stays known, and is marked. An id that is
registered again belongs to its latest schema. A subject ``:.NAME:subject`` belongs to the context NAME, which has its
own ids; the default context comes first. The text is hostile, so every field is checked. Pure. Thread rule: one thread.
Source: Confluent's ``SchemaRegistryKey``, ``SchemaValue``, ``DeleteSubjectValue``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeGuard

from tidelog.inspect.avro.stored_schema import SchemaReference, SchemaType, StoredSchema

SCHEMAS_TOPIC: Final = "_schemas"
MOST_TEXT_BYTES: Final = 1024 * 1024
_MOST_SCHEMAS: Final = 100_000
_MOST_REFERENCES: Final = 100
_INT_MAX: Final = 2**31 - 1


class RegistryLog:
    """The state after all records that were applied."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, StoredSchema]] = {}
        self._ids: dict[tuple[str, int], StoredSchema] = {}
        self.ignored = 0
        """Records that are no valid schemas."""

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record. A record that makes no sense is counted and ignored."""
        named = _object(key)
        kind, subject = named.get("keytype"), named.get("subject")
        if not isinstance(subject, str):
            self.ignored += kind in ("SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT") or not named
            return
        if kind == "SCHEMA" and value is None:
            self._delete(subject, lambda version: version == named.get("version"))
        elif kind == "SCHEMA":
            self._register(subject, _object(value))
        elif kind == "DELETE_SUBJECT" and value is not None:
            up_to = _object(value).get("version")
            if isinstance(up_to, int):
                self._delete(subject, lambda version: version <= up_to)
        elif kind == "CLEAR_SUBJECT":
            self._delete(subject, lambda _version: True)

    def by_id(self) -> Mapping[int, StoredSchema]:
        """Return the schemas by id. An id of the default context comes before those of other contexts."""
        found: dict[int, StoredSchema] = {}
        for (_, number), schema in sorted(self._ids.items(), key=lambda item: item[0], reverse=True):
            found[number] = schema
        return found

    def version(self, subject: str, version: int) -> StoredSchema | None:
        """Return a version of a subject, also if it is deleted."""
        return self._versions.get(subject, {}).get(version)

    def subjects(self) -> Mapping[str, Mapping[int, StoredSchema]]:
        """Return the versions of all subjects, also deleted ones."""
        return self._versions

    def _register(self, subject: str, fields: Mapping[str, Any]) -> None:
        schema = _schema(subject, fields)
        if schema is None or len(self._ids) >= _MOST_SCHEMAS:
            self.ignored += 1
            return
        self._versions.setdefault(subject, {})[schema.version] = schema
        place = (_context(subject), schema.id)
        known = self._ids.get(place)
        # A soft deletion writes the schema again; another subject may still have it under the same id.
        if not schema.is_deleted or known is None or (known.subject, known.version) == (subject, schema.version):
            self._ids[place] = schema

    def _delete(self, subject: str, is_meant: Callable[[int], bool]) -> None:
        for version, schema in self._versions.get(subject, {}).items():
            if not is_meant(version):
                continue
            deleted = replace(schema, is_deleted=True)
            self._versions[subject][version] = deleted
            place = (_context(subject), schema.id)
            known = self._ids.get(place)
            if known is not None and (known.subject, known.version) == (subject, version):
                self._ids[place] = deleted


def _schema(subject: str, fields: Mapping[str, Any]) -> StoredSchema | None:
    number, version, text = fields.get("id"), fields.get("version"), fields.get("schema")
    kind = fields.get("schemaType", SchemaType.AVRO)
    if not _is_int(number) or not _is_int(version) or not isinstance(text, str) or kind not in set(SchemaType):
        return None
    return StoredSchema(
        id=number,
        text=text,
        subject=subject,
        version=version,
        type=SchemaType(kind),
        references=_references(fields.get("references")),
        is_deleted=fields.get("deleted") is True,
    )


def _references(given: object) -> tuple[SchemaReference, ...]:
    if not isinstance(given, list):
        return ()
    found = []
    for one in given[:_MOST_REFERENCES]:
        if not isinstance(one, dict):
            continue
        name, subject, version = one.get("name"), one.get("subject"), one.get("version")
        if isinstance(name, str) and isinstance(subject, str) and _is_int(version):
            found.append(SchemaReference(name, subject, version))
    return tuple(found)


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _INT_MAX


def _object(data: bytes | None) -> dict[str, Any]:
    if data is None or len(data) > MOST_TEXT_BYTES:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _context(subject: str) -> str:
    return subject[2:].partition(":")[0] if subject.startswith(":.") else ""
