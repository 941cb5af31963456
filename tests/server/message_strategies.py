"""Hypothesis strategies for requests and responses: any values of a version's fields, often boundary values."""

from __future__ import annotations

import dataclasses
import uuid
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.schemas import Direction, is_array, is_optional, struct_class, struct_type

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = [
    "",
    "a",
    "topic",
    "..",
    "a b",
    "__consumer_offsets",
    "__transaction_state",
    "x" * 300,
    "\u0000",
    "ü/\U0001f300",
]
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "uint16": st.sampled_from([0, 1, 2**16 - 1]),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.sampled_from(_TEXTS) | st.text(max_size=5),
    "bytes": st.binary(max_size=40),
    "records": st.binary(max_size=100),
    "uuid": st.sampled_from([None, uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)]),
}
_MOST_ITEMS = 3


@cache
def requests(api: ApiKey, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return values for ``write_request``."""
    return _values(struct_class(api, Direction.REQUEST, version))


@cache
def responses(api: ApiKey, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Return values for ``write_response``."""
    return _values(struct_class(api, Direction.RESPONSE, version))


def _values(struct: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({field.name: _value(field) for field in dataclasses.fields(struct)})


def _value(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    struct = struct_type(field.type)
    value = _values(struct) if struct is not None else _plain(field.metadata["kafka_type"])
    if is_array(field.type):
        value = st.lists(value, max_size=_MOST_ITEMS)
    return st.none() | value if is_optional(field.type) and "tag" not in field.metadata else value


def _plain(kind: str) -> st.SearchStrategy[Any]:
    if kind not in _BITS:
        return _PLAIN[kind]
    largest = 2 ** (_BITS[kind] - 1) - 1
    edges = st.sampled_from([-largest - 1, -1, 0, 1, 2, largest])
    return edges | st.integers(min_value=-3, max_value=min(100, largest))
