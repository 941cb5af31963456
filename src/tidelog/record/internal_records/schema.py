"""The tables of fields, which describe storage records with a line per field, and their parser.

Kafka keeps storage records in its own topics (``__consumer_offsets``, ``__transaction_state``,
``__share_group_state``, ``__cluster_metadata``) and in control batches. Kafka describes each in a JSON file and
generates a class from it (KIP-482 for the flexible versions). Here a record is a few lines of text::

    PartitionRecord 3 versions 0-2 flexible 0+
        partitionId int32 = -1
        replicas []int32
        directories []uuid 1+
        lastKnownElr []int32? 2+ tag 2 = null

The first line has the name, the API key (-1: none), the versions, and the versions with compact lengths and tagged
fields (``none``). A field has a name, a type, ``?`` if it may be null (``?2+``: from version 2), and the versions that
have it (all if missing). ``tag N`` puts it into the tagged section, and ``= default`` sets a default other than zero,
empty or false. ``[]`` is an array. A type that starts with a capital is a structure: its fields follow, indented by
four more blanks.

The values are pure and built once at import. Thread rule: any thread.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
MAX_VERSION = 32767
LONGEST_STRING = 0x7FFF
"""The limit in bytes, in every version: Kafka neither reads nor writes a longer string."""

_ZEROS: dict[str, object] = {
    "boolean": False,
    "int8": 0,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "uint16": 0,
    "uint32": 0,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
}
_FIELD = re.compile(
    r"(?P<name>\w+) (?P<array>\[\])?(?P<type>\w+)(?P<null>\?)?(?P<null_versions>[\d+-]+)?"
    r"(?: (?P<versions>\d[\d+-]*))?(?: tag (?P<tag>\d+))?(?: = (?P<default>.+))?"
)
_HEAD = re.compile(r"(?P<name>\w+) (?P<key>-?\d+) versions (?P<versions>[\d-]+) flexible (?P<flexible>none|[\d+]+)")


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last if dash else first))


ALL = Versions(0, MAX_VERSION)
NEVER = Versions(MAX_VERSION, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field. ``fields`` is empty unless ``type`` names a structure; ``default`` is a decoded value."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: object
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """A kind of storage record. Each has a single object, so identity comparison (with a fast hash) is enough."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


def parse_messages(text: str) -> dict[str, Message]:
    """Parse a table of messages in the notation above. Raise ValueError (a mistake of ours) for a wrong line."""
    messages: dict[str, Message] = {}
    blocks = re.split(r"\n(?=\S)", text.strip("\n"))
    for block in blocks:
        head, *lines = [line for line in block.splitlines() if line.strip()]
        match = _HEAD.fullmatch(head)
        if match is None:
            raise ValueError(f"not a message head: {head!r}")
        message = Message(
            name=match["name"],
            api_key=int(match["key"]),
            versions=Versions.parse(match["versions"]),
            flexible=NEVER if match["flexible"] == "none" else Versions.parse(match["flexible"]),
            fields=_parse_fields(lines, indent=4),
        )
        messages[message.name] = message
    return messages


def _parse_fields(lines: list[str], indent: int) -> tuple[Field, ...]:
    fields = []
    index = 0
    while index < len(lines):
        end = index + 1
        while end < len(lines) and lines[end].startswith(" " * (indent + 4)):
            end += 1
        fields.append(_parse_field(lines[index][indent:], _parse_fields(lines[index + 1 : end], indent + 4)))
        index = end
    return tuple(fields)


def _parse_field(line: str, inner: tuple[Field, ...]) -> Field:
    match = _FIELD.fullmatch(line)
    if match is None or (match["type"] not in _ZEROS and not match["type"][0].isupper()):
        raise ValueError(f"not a field: {line!r}")
    is_array = match["array"] is not None
    versions = Versions.parse(match["versions"]) if match["versions"] else ALL
    nullable = NEVER
    if match["null"]:
        nullable = Versions.parse(match["null_versions"]) if match["null_versions"] else versions
    default: object
    if match["default"] is not None:
        default = json.loads(match["default"])
    elif is_array:
        default = []
    elif match["type"] in _ZEROS:
        default = _ZEROS[match["type"]]
    else:
        default = {field.name: field.default for field in inner}
    return Field(
        name=match["name"],
        type=match["type"],
        is_array=is_array,
        versions=versions,
        nullable=nullable,
        tag=int(match["tag"]) if match["tag"] else None,
        default=default,
        fields=inner,
    )
