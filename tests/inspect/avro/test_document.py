"""The document of a schema and of the schemas that it refers to: names, namespaces, hostile texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastavro import parse_schema

from tidelog.inspect.avro.document import is_bounded, self_contained, without_logical_types
from tidelog.inspect.avro.stored_schema import SchemaError

ENUM = {"type": "enum", "name": "Code", "namespace": "x.y", "symbols": ["A"]}


def record(name: str, *types: Any, **more: Any) -> dict[str, Any]:
    fields = [{"name": f"f{number}", "type": one} for number, one in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields} | more


def of(*documents: Any) -> Any:
    return self_contained([json.dumps(document) for document in documents])


def test_a_type_is_defined_where_it_is_first_used() -> None:
    place = record("Place", "Code", {"type": "array", "items": "Code"}, namespace="x.y")
    found = of(ENUM, place, record("z.Leg", ["null", "x.y.Place"], {"type": "map", "values": "x.y.Place"}, "x.y.Code"))
    inner = record("Place", ENUM, {"type": "array", "items": "x.y.Code"}, namespace="x.y")
    outer = record("Leg", ["null", inner], {"type": "map", "values": "x.y.Place"}, "x.y.Code", namespace="z")
    assert found == outer
    parse_schema(found)


def test_namespaces_are_those_of_the_definition() -> None:
    named = {"type": "fixed", "name": "F", "size": 1}
    found = of(record("a.A", named, "F", "a.F"))
    assert found == record("A", named | {"namespace": "a"}, "a.F", "a.F", namespace="a")
    bare = of(named, record("a.A", "F"))
    assert bare == record("A", named | {"namespace": ""}, namespace="a")
    both = of(named, {"type": "fixed", "name": "a.F", "size": 2}, record("a.A", "F"))
    assert both["fields"][0]["type"] == {"type": "fixed", "name": "F", "size": 2, "namespace": "a"}


def test_a_type_may_contain_itself() -> None:
    node = record("Node", ["null", "Node"])
    assert of(node) == node | {"namespace": ""}
    chain = record("Chain", ["null", "Other"]), record("Other", ["null", "Chain"])
    assert of(*chain)["fields"][0]["type"][1]["fields"][0]["type"] == ["null", "Other"]


def test_nested_types_lose_their_wrapping() -> None:
    assert of({"type": {"type": {"type": "long", "logicalType": "date"}}}) == {"type": "long", "logicalType": "date"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("Gone", "uses the type Gone, which no known schema defines"),
        (record("A", "x.Gone"), "uses the type x.Gone"),
        ({"type": "array"}, "the schema is invalid: KeyError: 'items'"),
        ({"type": "record", "name": 5, "fields": []}, "the schema is invalid: TypeError"),
        (None, "the schema is invalid: TypeError"),
        ({"type": "record", "name": "A", "fields": ["x"]}, "the schema is invalid"),
    ],
)
def test_refused_schemas(schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        of(schema)


def test_references_cannot_make_a_schema_too_deep() -> None:
    deep = [record("R0", "int")]
    deep += [record(f"R{number}", {"type": "array", "items": f"R{number - 1}"}) for number in range(1, 99)]
    with pytest.raises(SchemaError, match="nested deeper than 100 levels"):
        of(*deep)


def test_logical_types_are_removed_except_named_ones() -> None:
    schema = [{"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "odd"}]
    assert without_logical_types(schema) == [{"type": "int"}, {"type": "long"}]
    assert without_logical_types(schema, frozenset({"date"})) == [schema[0], {"type": "long"}]


def test_which_schemas_bound_their_values() -> None:
    array = {"type": "array", "items": "int"}
    assert is_bounded(of(ENUM, record("A", array, ["null", "x.y.Code"], {"type": "map", "values": "null"})))
    assert is_bounded(of(record("A", {"type": "array", "items": record("B", "null", "int")})))
    assert is_bounded(of(record("A", ENUM, {"type": "array", "items": "x.y.Code"})))
    assert is_bounded(of(record("A", record("B", "int"), {"type": "array", "items": "B"})))
    for unbounded in (
        record("A", record("B", "null"), {"type": "array", "items": "B"}),
        record("A", ["null", "A"]),
        record("A", {"type": "map", "values": "A"}),
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "null"}},
        {"type": "array", "items": record("B", "null", record("C"))},
        {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
        record("A", {"type": "array", "items": {"type": "array", "items": record("E")}}),
    ):
        assert not is_bounded(of(unbounded)), unbounded
