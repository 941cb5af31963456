"""The fields of messages: classes of plain values, made from kio's classes.

kio follows Kafka's own definitions and has a dataclass for each version of a message. A class of ours is made from it,
with the same names, order and tags, and with plain types. kio's decoder and encoder work with it:

===========================  ======================================================================================
kio's field                  field here
===========================  ======================================================================================
duration, point in time      int, milliseconds; -1 where kio has None for a time
error code                   int
id of 16 bytes               ``uuid.UUID``; None for Kafka's zero id
a struct                     a class made in the same way
an array                     a tuple, or None
===========================  ======================================================================================

A field that only other versions have is an attribute of the class with the field's default. It is found at its first
use. kio's modules are imported when a version is first used, because each import takes milliseconds. Thread rule: any
thread. Two threads may make the same class twice: both copies are equivalent.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, ClassVar, get_args, get_origin

from tidelog.protocol.api_key import VERSIONS, ApiKey

_PLAIN_KIND = {
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "error_code": "int16",
}
_ZERO = {"string": "", "bytes": b"", "records": None, "uuid": None, "bool": False, "float64": 0.0}
"""The default by kind if the definition has none. Numbers have 0."""


class Direction(StrEnum):
    REQUEST = "request"
    RESPONSE = "response"


class Struct:
    """A message or a struct within one. Every field of every version is an attribute."""

    __slots__ = ()
    _place: ClassVar[Place]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        default = type(self)._place.default_elsewhere(name)
        setattr(type(self), name, default)
        return default


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The place of a struct in an API's messages: the names of the fields that lead to it."""

    api: ApiKey
    direction: Direction
    path: tuple[str, ...] = ()

    def within(self, name: str) -> Place:
        return Place(self.api, self.direction, (*self.path, name))

    def default_elsewhere(self, name: str) -> Any:
        """Return a field's default in the latest version that has it. Raise AttributeError if none has it."""
        for kio_class in self._in_all_versions():
            for field in dataclasses.fields(kio_class):
                if field.name == name:
                    default = default_of(field)
                    is_struct = dataclasses.is_dataclass(default)
                    return _plain_class(type(default), self.within(name))() if is_struct else default
        raise AttributeError(f"no version of {self} has a field {name}")

    def __str__(self) -> str:
        return ".".join([f"{self.api.name} {self.direction}", *self.path])

    def _in_all_versions(self) -> Iterator[type]:
        latest = VERSIONS[self.api].latest
        for version in range(latest, -1, -1):
            kio_class = _kio_class(self.api, self.direction, version)
            for name in self.path:
                kio_class = kio_class and _struct_in(kio_class, name)
            if kio_class is not None:
                yield kio_class


@cache
def struct_class(api: ApiKey, direction: Direction, version: int) -> type[Struct]:
    """Return the class of a complete message. Raise KeyError if the version does not exist."""
    kio_class = _kio_class(api, direction, version)
    if kio_class is None:
        raise KeyError(f"{api.name} has no version {version}")
    return _plain_class(kio_class, Place(api, direction))


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return Kafka's default of a field as a plain value."""
    if field.default is not dataclasses.MISSING:
        return _plain_value(field.default, field)
    if is_array(field.type):
        return ()
    if "kafka_type" in field.metadata:
        return _ZERO.get(field.metadata["kafka_type"], 0)
    return None


def struct_type(field_type: Any) -> type | None:
    """Return the class of a field's struct or of its array items, or None for plain values."""
    inner = _without_none(field_type)
    if get_origin(inner) is tuple:
        inner = get_args(inner)[0]
    return inner if dataclasses.is_dataclass(inner) and isinstance(inner, type) else None


def is_array(field_type: Any) -> bool:
    return get_origin(_without_none(field_type)) is tuple


def is_optional(field_type: Any) -> bool:
    """Return True if the field may be null on the wire."""
    return get_origin(field_type) is UnionType


def _plain_class(kio_class: type, place: Place) -> type[Struct]:
    fields = [_plain_field(field, place.within(field.name)) for field in dataclasses.fields(kio_class)]
    namespace = {name: getattr(kio_class, name) for name in ("__type__", "__version__", "__flexible__", "__api_key__")}
    return dataclasses.make_dataclass(
        kio_class.__name__,
        fields,
        bases=(Struct,),
        namespace={**namespace, "_place": place},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _plain_field(field: dataclasses.Field[Any], place: Place) -> tuple[str, Any, dataclasses.Field[Any]]:
    metadata = dict(field.metadata)
    plain_type: Any = field.type
    inner = struct_type(field.type)
    default: Any = field.default
    if inner is not None:
        plain = _plain_class(inner, place)
        plain_type = _replaced(field.type, plain)
        if isinstance(default, inner):
            default = plain()
    else:
        kind = metadata["kafka_type"] = _PLAIN_KIND.get(metadata["kafka_type"], metadata["kafka_type"])
        if kind != field.metadata["kafka_type"]:
            plain_type = _replaced(_without_none(field.type), int)
        if default is not dataclasses.MISSING:
            default = _plain_value(default, field)
    return field.name, plain_type, dataclasses.field(metadata=metadata, default=default)


def _plain_value(value: Any, field: dataclasses.Field[Any]) -> Any:
    match field.metadata.get("kafka_type"):
        case "timedelta_i32" | "timedelta_i64":
            return round(value.total_seconds() * 1000)
        case "datetime_i64":
            return -1 if value is None else round(value.timestamp() * 1000)
        case "error_code":
            return int(value)
        case _:
            return value


def _replaced(field_type: Any, inner: type) -> Any:
    """Return the field's type with ``inner`` as the type of the field or of its items."""
    if is_optional(field_type):
        return _replaced(_without_none(field_type), inner) | None
    return tuple[inner, ...] if get_origin(field_type) is tuple else inner  # type: ignore[valid-type]


def _without_none(field_type: Any) -> Any:
    if not is_optional(field_type):
        return field_type
    return next(part for part in get_args(field_type) if part is not NoneType)


def _struct_in(kio_class: type, name: str) -> type | None:
    return next((struct_type(field.type) for field in dataclasses.fields(kio_class) if field.name == name), None)


@cache
def _kio_class(api: ApiKey, direction: Direction, version: int) -> type | None:
    _import_kio_alone()
    package = f"kio.schema.{api.name.lower()}.v{version}"
    try:
        module = import_module(f"{package}.{direction}")
    except ModuleNotFoundError:
        return None
    found: type = getattr(module, f"{api.title}{direction.title()}")
    return found


@cache
def _import_kio_alone() -> None:
    """Import kio without hypothesis, unless a test has imported it: kio's strategies take a third of a second."""
    if "hypothesis" in sys.modules:
        return
    sys.modules["hypothesis"] = None  # type: ignore[assignment] # None makes an import fail, as if it were not installed
    try:
        import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]
