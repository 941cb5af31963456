"""Avro schemas as parsed JSON: hostile texts are refused, and a schema gets the definitions of the types it refers to.

A schema of a registry may use types that other schemas define. Java's parser needs one document that defines each named
type where it is first used. ``self_contained`` makes it. Each definition in it has its namespace, and each later use
has the full name, so the enclosing namespace no longer matters. Pure. Thread rule: any thread.
Source: the Avro specification 1.12, names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tidelog.inspect.avro.registry_log import MOST_TEXT_BYTES
from tidelog.inspect.avro.stored_schema import SchemaError
from tidelog.inspect.avro.value_limits import check_schema

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
RECORDS: Final = frozenset({"record", "error"})
_NAMED: Final = RECORDS | {"enum", "fixed"}


def parse_document(text: str) -> Any:
    """Return the parsed JSON of a schema. Raise SchemaError for a text that is no JSON, too large or too deep."""
    if len(text) > MOST_TEXT_BYTES:
        raise SchemaError(f"the schema has more than {MOST_TEXT_BYTES:,} characters")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise SchemaError("the schema is no JSON") from None
    check_schema(document)
    return document


def without_logical_types(schema: Any, kept: frozenset[str] = frozenset()) -> Any:
    """Return a schema without its logical types, except those with a name in ``kept``."""
    if isinstance(schema, dict):
        return {
            name: without_logical_types(value, kept)
            for name, value in schema.items()
            if name != "logicalType" or value in kept
        }
    return [without_logical_types(one, kept) for one in schema] if isinstance(schema, list) else schema


def self_contained(texts: Sequence[str]) -> Any:
    """Return the last schema of ``texts`` with the definitions of all types that it uses. Raise SchemaError.

    The texts before the last one are the schemas that it refers to.
    """
    documents = [parse_document(text) for text in texts]
    try:
        found = {name: (schema, namespace) for one in documents for name, schema, namespace in _definitions(one, "")}
        document = _Inlining(found).schema(documents[-1], "")
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise SchemaError(f"the schema is invalid: {type(error).__name__}: {error}") from None
    check_schema(document)
    return document


def is_bounded(document: Any) -> bool:
    """Return False if few bytes can be a value of unlimited size: a type contains itself, or items have no bytes.

    ``document`` is self-contained.
    """
    return _is_bounded(document, {name: schema for name, schema, _ in _definitions(document, "")}, frozenset())


def _is_bounded(schema: Any, named: Mapping[str, Any], inside: frozenset[str]) -> bool:
    """Check one part. ``inside`` has the names of the types around it. A named type is checked at its definition."""
    if isinstance(schema, list):
        return all(_is_bounded(one, named, inside) for one in schema)
    if not isinstance(schema, dict):
        return schema not in inside
    kind = schema["type"]
    if kind == "array":
        return not _may_be_empty(schema["items"], named) and _is_bounded(schema["items"], named, inside)
    if kind == "map":
        return _is_bounded(schema["values"], named, inside)
    if kind in RECORDS:
        inside |= {full_name(schema, "")}
        return all(_is_bounded(field["type"], named, inside) for field in schema["fields"])
    return True


def _may_be_empty(schema: Any, named: Mapping[str, Any]) -> bool:
    """Return True if values of a schema may have no bytes. A record that contains only itself has no values."""
    if isinstance(schema, str):
        return schema == "null" or (schema in named and _may_be_empty(named[schema], _without(named, schema)))
    if isinstance(schema, list):
        return False
    if schema["type"] in RECORDS:
        return all(_may_be_empty(field["type"], named) for field in schema["fields"])
    return bool(schema["type"] == "null" or (schema["type"] == "fixed" and schema["size"] == 0))


def _without(named: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return {one: schema for one, schema in named.items() if one != name}


def full_name(schema: Any, namespace: str) -> str:
    """Return the full name of a definition inside a namespace. An empty namespace is none."""
    name: str = schema["name"]
    own = schema.get("namespace", namespace)
    return name if "." in name or not own else f"{own}.{name}"


def _definitions(schema: Any, namespace: str) -> Iterator[tuple[str, Any, str]]:
    """Yield the named types in a schema: full name, definition, enclosing namespace."""
    if isinstance(schema, list):
        for one in schema:
            yield from _definitions(one, namespace)
    elif isinstance(schema, dict):
        kind = schema["type"]
        if not isinstance(kind, str):
            yield from _definitions(kind, namespace)
        elif kind in _NAMED:
            name = full_name(schema, namespace)
            yield name, schema, namespace
            for field in schema["fields"] if kind in RECORDS else ():
                yield from _definitions(field["type"], name.rpartition(".")[0])
        elif kind in ("array", "map"):
            yield from _definitions(schema["items" if kind == "array" else "values"], namespace)


class _Inlining:
    """A walk in the sequence of the text, which writes a definition where its name is first used."""

    def __init__(self, definitions: dict[str, tuple[Any, str]]) -> None:
        self._definitions = definitions
        self._written = set[str]()

    def schema(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self._named(schema, namespace)
        if isinstance(schema, list):
            return [self.schema(one, namespace) for one in schema]
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.schema(kind, namespace)
        if kind in _NAMED:
            return self._definition(schema, namespace)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return {**schema, part: self.schema(schema[part], namespace)}
        return schema if kind in PRIMITIVES else self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Any:
        """Return a used type: its name if it is defined before. A name without a namespace may mean either one."""
        for one in (f"{namespace}.{name}", name) if namespace and "." not in name else (name,):
            if one in self._written:
                return one
            if one in self._definitions:
                return self._definition(*self._definitions[one])
        raise SchemaError(f"the schema uses the type {name[:100]}, which no known schema defines")

    def _definition(self, schema: Any, enclosing: str) -> Any:
        name = full_name(schema, enclosing)
        if name in self._written:
            return name
        self._written.add(name)
        namespace, _, simple = name.rpartition(".")
        written = {**schema, "name": simple, "namespace": namespace}
        if schema["type"] in RECORDS:
            fields = [{**field, "type": self.schema(field["type"], namespace)} for field in schema["fields"]]
            written["fields"] = fields
        return written
