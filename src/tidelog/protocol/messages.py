"""Messages of Kafka's protocol: bytes to a Struct of every field there is, mappings of values to bytes.

A handler need not know the version it answers. Reading: a field the version lacks has Kafka's default. Writing: a field
the version lacks is dropped, one that was not given has Kafka's default, or its type's zero; a name that no version
has is a mistake of the caller. Codes and times are ints; see ``schemas`` for the types.

The decoder and the encoder are kio's. Called by: requests and handlers of the server; tests, for the other side of the
wire. Thread rule: any thread.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tidelog.protocol.announced_sizes import require_true_sizes
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.request_size import MOST_ITEMS, item_count, require_few_items, require_plain_size
from tidelog.protocol.schemas import Direction, Struct, default_of, is_array, is_optional, struct_class, struct_type

if TYPE_CHECKING:
    from typing_extensions import Buffer

Values = Mapping[str, Any]
"""Fields by name; structs as mappings or Structs, arrays as any iterables."""

Reader = Callable[["Buffer", int], tuple[Struct, int]]
Check = Callable[[Struct], None]

_NO_ID = UUID(int=0)


def read_request(api: ApiKey, version: int, body: Buffer) -> Struct:
    """``body``: what follows the header; bytes that are left over are ignored, as by Kafka. MalformedMessageError, also
    for one that asks for too much."""
    size = memoryview(body).nbytes
    require_plain_size(size)
    require_true_sizes(struct_class(api, Direction.REQUEST, version), body)
    message = _read(api, Direction.REQUEST, version, body)
    if size > MOST_ITEMS:  # each has a byte at least
        require_few_items(item_count(message))
    return message


def write_response(api: ApiKey, version: int, values: Values | Struct) -> bytes:
    """What follows the header. TypeError for a name that no version of the response has, or a value of another type."""
    return _write(api, Direction.RESPONSE, version, values)


def response_of(api: ApiKey, version: int, values: Values) -> Struct:
    """What ``write_response`` takes in place of the values, which may change then. TypeError, as there."""
    build, _ = _writer(api, Direction.RESPONSE, version)
    return build(values)


def write_request(api: ApiKey, version: int, values: Values) -> bytes:
    """As ``write_response``: a client's side."""
    return _write(api, Direction.REQUEST, version, values)


def read_response(api: ApiKey, version: int, body: Buffer) -> Struct:
    """As ``read_request``: a client's side."""
    return _read(api, Direction.RESPONSE, version, body)


def _read(api: ApiKey, direction: Direction, version: int, body: Buffer) -> Struct:
    reader, check = _reader(api, direction, version)
    try:
        message, _end = reader(memoryview(body).toreadonly(), 0)
        if check is not None:
            check(message)
    except Exception as error:  # whatever kio says of bytes it cannot read: it has several ways
        raise MalformedMessageError(f"no {direction} of {api.name} version {version}: {error}") from error
    return message


def _write(api: ApiKey, direction: Direction, version: int, values: Values | Struct) -> bytes:
    build, writer = _writer(api, direction, version)
    buffer = io.BytesIO()
    writer(buffer, build(values))
    return buffer.getvalue()


@cache
def _reader(api: ApiKey, direction: Direction, version: int) -> tuple[Reader, Check | None]:
    message: Any = struct_class(api, direction, version)
    from kio.serial import entity_reader

    return entity_reader(message), _null_check(message)


class _Nested(NamedTuple):
    """A field of arrays or structs."""

    name: str
    can_be_null: bool
    is_array: bool
    check: Check | None
    """Of each struct in it."""


def _null_check(struct: Any) -> Check | None:
    """ValueError for null where an array or a struct cannot be null, which kio takes. None: there is no such place."""
    nested = []
    for field in dataclasses.fields(struct):
        inner = struct_type(field.type)
        if inner is not None or is_array(field.type):
            check = None if inner is None else _null_check(inner)
            nested.append(_Nested(field.name, is_optional(field.type), is_array(field.type), check))
    looked_at = [one for one in nested if not one.can_be_null or one.check is not None]

    def check_struct(message: Struct) -> None:
        for name, can_be_null, is_many, check in looked_at:
            value = getattr(message, name)
            if value is None:
                if not can_be_null:
                    raise ValueError(f"{name} is null")
            elif check is not None:
                for one in value if is_many else (value,):
                    check(one)

    return check_struct if looked_at else None


@cache
def _writer(api: ApiKey, direction: Direction, version: int) -> tuple[Builder, Callable[[io.BytesIO, Struct], None]]:
    message: Any = struct_class(api, direction, version)
    from kio.serial import entity_writer

    return Builder(message), entity_writer(message)


class Builder:
    """Makes Structs of one class out of mappings."""

    __slots__ = ("_converters", "_defaults", "_known", "_struct")

    def __init__(self, struct: type[Struct]) -> None:
        fields = dataclasses.fields(struct)  # type: ignore[arg-type] # every class made of Struct is a dataclass
        self._struct = struct
        self._defaults = {field.name: _default(field) for field in fields}
        self._converters = {field.name: converter for field in fields if (converter := _converter(field)) is not None}
        self._known: set[str] = set()
        """Names that other versions have."""

    def __call__(self, values: Values | Struct) -> Struct:
        if isinstance(values, Struct):
            return values
        merged = {**self._defaults, **values}
        if len(merged) > len(self._defaults):
            self._drop_others(merged)
        for name, convert in self._converters.items():
            merged[name] = convert(merged[name])
        return self._struct(**merged)

    def _drop_others(self, merged: dict[str, Any]) -> None:
        for name in merged.keys() - self._defaults.keys():
            if name not in self._known:
                try:
                    self._struct._place.default_elsewhere(name)
                except AttributeError as error:
                    raise TypeError(str(error)) from None
                self._known.add(name)
            del merged[name]


def _default(field: dataclasses.Field[Any]) -> Any:
    """A struct that cannot be left out is made of its own defaults."""
    default = default_of(field)
    return {} if default is None and struct_type(field.type) is field.type else default


def _converter(field: dataclasses.Field[Any]) -> Callable[[Any], Any] | None:
    """What makes the field's value out of the caller's; None where it is taken as it is."""
    struct = struct_type(field.type)
    if struct is not None:
        build = Builder(struct)
        if is_array(field.type):
            return lambda items: _tuple_of(build, items)
        return lambda value: _optional(build, value)
    if is_array(field.type):
        return lambda items: None if items is None else tuple(items)
    if field.metadata["kafka_type"] == "uuid":
        return lambda value: None if value == _NO_ID else value
    return None


def _tuple_of(build: Builder, items: Iterable[Values] | None) -> tuple[Struct, ...] | None:
    return None if items is None else tuple(map(build, items))


def _optional(build: Builder, value: Values | None) -> Struct | None:
    return None if value is None else build(value)
