"""The JSON of a znode: typed fields for a decoder, and Jackson's bytes for an encoder. Pure.

A decoder gets each field with its type, or a ZnodeError that names the znode and the field. Any program may have
written the znode, so nothing about the data is trusted. Kafka encodes with Jackson: no spaces, upper-case digits in
escapes, and characters above U+FFFF as two escapes.
Source: Kafka's ``Json``, ``DecodeJson``; Jackson's ``UTF8JsonGenerator``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tidelog.model import ZnodeError

INT: Final = range(-(2**31), 2**31)
LONG: Final = range(-(2**63), 2**63)
_SHOWN_CHARACTERS: Final = 80
_ESCAPED: Final = re.compile(r"\\u00[0-9a-f]{2}|[\U00010000-\U0010ffff]")


def encode_json(value: Mapping[str, Any]) -> bytes:
    """Return the bytes that Kafka would write. The keys keep their sequence."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPED.sub(_as_jackson, text).encode()


def _as_jackson(found: re.Match[str]) -> str:
    text = found[0]
    if len(text) > 1:
        return "\\u" + text[2:].upper()
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in (0, 2))


class JsonFields(NamedTuple):
    """The fields of a JSON object. ``path`` is the znode, and ``place`` the object in it for error messages."""

    path: str
    fields: Mapping[str, Any]
    place: str = ""

    @classmethod
    def of(cls, path: str, data: bytes) -> JsonFields:
        """Parse a znode's data. Raise ZnodeError unless it is a JSON object."""
        try:
            value = json.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise ZnodeError(f"znode {path} has no valid JSON: {shown(data)}", path=None) from error
        return cls(path, _require_object(path, "the data", value))

    def version(self, *known: int) -> int:
        """Return the format's version. Raise ZnodeError unless it is one of ``known``."""
        version = self.number("version")
        if version not in known:
            numbers = ", ".join(map(str, known))
            raise self.error(f"version {version} is not known, only {numbers}: a newer Kafka may have written it")
        return version

    def number(self, name: str, valid: range = INT) -> int:
        return self._checked_number(name, self._required(name), valid)

    def optional_number(self, name: str, default: int, valid: range = INT) -> int:
        value = self.fields.get(name)
        return default if value is None else self._checked_number(name, value, valid)

    def text(self, name: str) -> str:
        return self._checked_text(name, self._required(name))

    def optional_text(self, name: str) -> str | None:
        value = self.fields.get(name)
        return None if value is None else self._checked_text(name, value)

    def text_number(self, name: str, valid: range = LONG) -> int:
        """Return a number that Kafka writes as text. A number itself is accepted."""
        value = self._required(name)
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value, re.ASCII):
            value = int(value)
        return self._checked_number(name, value, valid)

    def numbers(self, name: str) -> tuple[int, ...]:
        return self._checked_numbers(name, self._required(name))

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name, self._required(name))
        return tuple(self._checked_text(name, value) for value in values)

    def inner(self, name: str) -> JsonFields:
        return JsonFields(self.path, _require_object(self.path, self._named(name), self._required(name)), name)

    def optional_inner(self, name: str) -> JsonFields:
        """Return the object, or one without fields."""
        value = self.fields.get(name)
        return JsonFields(self.path, {}, name) if value is None else self.inner(name)

    def inner_all(self, name: str) -> Iterator[JsonFields]:
        """Yield the objects of an array."""
        for value in self._list(name, self._required(name)):
            yield JsonFields(self.path, _require_object(self.path, self._named(name), value), name)

    def text_items(self) -> dict[str, str]:
        """Return all fields, which must be texts."""
        return {self._checked_text("a key", key): self._checked_text(key, value) for key, value in self.fields.items()}

    def numbers_by_partition(self) -> dict[int, tuple[int, ...]]:
        """Return all fields, which must be replicas by partition number."""
        return {self._partition(key): self._checked_numbers(key, value) for key, value in self.fields.items()}

    def error(self, problem: str) -> ZnodeError:
        return ZnodeError(f"znode {self.path}: {problem}")

    def _partition(self, key: str) -> int:
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", key, re.ASCII) or int(key) not in INT:
            raise self.error(f"{self._named('')}has {shown(key)}, which is not a partition number")
        return int(key)

    def _required(self, name: str) -> Any:
        if self.fields.get(name) is None:
            raise self.error(f"{self._named(name)} is missing")
        return self.fields[name]

    def _checked_number(self, name: str, value: Any, valid: range) -> int:
        if type(value) is not int or value not in valid:
            raise self.error(
                f"{self._named(name)} is {shown(value)}, which is not a number from {valid[0]} to {valid[-1]}"
            )
        return value

    def _checked_text(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or not _is_encodable(value):
            raise self.error(f"{self._named(name)} is {shown(value)}, which is not a text")
        return value

    def _checked_numbers(self, name: str, value: Any) -> tuple[int, ...]:
        return tuple(self._checked_number(name, one, INT) for one in self._list(name, value))

    def _list(self, name: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.error(f"{self._named(name)} is {shown(value)}, which is not an array")
        return value

    def _named(self, name: str) -> str:
        shortened = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…"
        return f"{self.place} {shortened}".strip() if name else f"{self.place} "


def shown(value: object) -> str:
    """Return a value's repr for an error message, in at most 80 characters."""
    text = repr(value[: _SHOWN_CHARACTERS + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _require_object(path: str, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ZnodeError(f"znode {path}: {name} is {shown(value)}, which is not a JSON object")
    return value


def _is_encodable(text: str) -> bool:
    """Return False for a text with half of a surrogate pair, which has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
