"""Messages of Kafka's protocol: bytes to a Struct with every version's fields, and mappings to bytes.

A handler need not know the version of its request. A read message has Kafka's default for a field that its version
lacks. A written message drops a field that the version lacks. A missing field gets Kafka's default or its type's zero.
A name that no version has is a mistake of the caller. Codes and times are ints; ``schemas`` lists the types. The
decoder and the encoder are kio's. Tests use the client's side. Thread rule: any thread.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.request_size import MOST_ITEMS, item_count, require_few_items, require_plain_size
from tidelog.protocol.schemas import Direction, Struct, default_of, is_array, is_optional, struct_class, struct_type
from tidelog.protocol.size_checks import require_plausible_sizes

if TYPE_CHECKING:
    from typing_extensions import Buffer

Values = Mapping[str, Any]
"""The fields by name. Structs are mappings or Structs, and arrays are any iterables."""

Reader = Callable[["Buffer", int], tuple[Struct, int]]
Check = Callable[[Struct], None]

NO_ID: Final = UUID(int=0)
"""The id of the protocol that is read as None."""


def read_request(api: ApiKey, version: int, body: Buffer) -> Any:
    """Return the Struct of the bytes after the header; ``message_types`` has the types of its fields.

    Trailing bytes are ignored, as in Kafka. Raise MalformedMessageError if the bytes are not a request, or if it
    exceeds the limits of ``request_size``.
    """
    size = memoryview(body).nbytes
    require_plain_size(size)
    require_plausible_sizes(struct_class(api, Direction.REQUEST, version), body)
    message = _read(api, Direction.REQUEST, version, body)
    if size > MOST_ITEMS:  # each item has at least one byte
        require_few_items(item_count(message))
    return message


def write_response(api: ApiKey, version: int, values: Values | Struct) -> bytes:
    """Encode the bytes after the header. Raise TypeError for a name that no version has, or a wrong type."""
    return _write(api, Direction.RESPONSE, version, values)


def response_of(api: ApiKey, version: int, values: Values) -> Struct:
    """Return the values as a Struct, which ``write_response`` accepts. The caller may change the values then. Raise
    TypeError as ``write_response`` does."""
    build, _ = _writer(api, Direction.RESPONSE, version)
    return build(values)


def write_request(api: ApiKey, version: int, values: Values) -> bytes:
    """Encode a request, as a client does. Raise TypeError as ``write_response`` does."""
    return _write(api, Direction.REQUEST, version, values)


def read_response(api: ApiKey, version: int, body: Buffer) -> Struct:
    """Decode a response, as a client does. Raise MalformedMessageError if the bytes are not one.

    A response may have more items than a request, but no more than its bytes can hold.
    """
    require_plausible_sizes(struct_class(api, Direction.RESPONSE, version), body, most_items=memoryview(body).nbytes)
    return _read(api, Direction.RESPONSE, version, body)


def _read(api: ApiKey, direction: Direction, version: int, body: Buffer) -> Struct:
    reader, check = _reader(api, direction, version)
    try:
        message, _end = reader(memoryview(body).toreadonly(), 0)
        if check is not None:
            check(message)
    except Exception as error:  # kio raises several kinds of errors for invalid bytes
        raise MalformedMessageError(f"not a valid {direction} of {api.name} version {version}: {error}") from error
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
    """A field that is an array or a struct."""

    name: str
    can_be_null: bool
    is_array: bool
    check: Check | None
    """The check of each struct in it."""


def _null_check(struct: Any) -> Check | None:
    """Return a check that raises ValueError for an illegal null, which kio accepts, or None if there can be none."""
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
    """A function that makes Structs of one class from mappings."""

    __slots__ = ("_converters", "_defaults", "_known", "_struct")

    def __init__(self, struct: type[Struct]) -> None:
        fields = dataclasses.fields(struct)  # type: ignore[arg-type] # every subclass of Struct is a dataclass
        self._struct = struct
        self._defaults = {field.name: _default(field) for field in fields}
        self._converters = {field.name: converter for field in fields if (converter := _converter(field)) is not None}
        self._known: set[str] = set()
        """The field names that only other versions have."""

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
    """Return a field's default. ``{}`` gives a required struct its own defaults."""
    default = default_of(field)
    return {} if default is None and struct_type(field.type) is field.type else default


def _converter(field: dataclasses.Field[Any]) -> Callable[[Any], Any] | None:
    """Return the conversion from the caller's value to the field's, or None if there is none."""
    struct = struct_type(field.type)
    if struct is not None:
        build = Builder(struct)
        if is_array(field.type):
            return lambda items: _tuple_of(build, items)
        return lambda value: _optional(build, value)
    if is_array(field.type):
        return lambda items: None if items is None else tuple(items)
    if field.metadata["kafka_type"] == "uuid":
        return lambda value: None if value == NO_ID else value
    return None


def _tuple_of(build: Builder, items: Iterable[Values] | None) -> tuple[Struct, ...] | None:
    return None if items is None else tuple(map(build, items))


def _optional(build: Builder, value: Values | None) -> Struct | None:
    return None if value is None else build(value)
