"""src/tidelog/protocol/message_types: stubs of the messages that handlers read and write, for mypy and editors.

`make map` writes them from kio's classes. A test fails while the stubs and kio differ. A request is a class with
attributes, and a response a TypedDict of which no key is required. Both have the fields of every supported version,
with the plain types of ``protocol.schemas``. The stubs are never imported at run time: that would cost start-up time.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.schemas import Direction, is_array, is_optional, struct_class, struct_type
from tidelog.server.handlers.api_groups import API_GROUPS, CONTROLLER_API_GROUPS

FOLDER = Path(__file__).resolve().parents[1] / "src" / "tidelog" / "protocol" / "message_types"
Names = dict[tuple[str, str], str]
"""The stub's name of each struct, by its message and its name in the message."""

OWN_CODEC = {(api, direction) for api in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS) for direction in Direction}
OWN_CODEC.add((ApiKey.METADATA, Direction.RESPONSE))
"""The messages that are named tuples of ``tidelog.protocol``."""
_CONTROLLERS_ALONE = {api: group for api, group in CONTROLLER_API_GROUPS.items() if api not in API_GROUPS}
_PLAIN_TYPES = {
    "records": "bytes",
    "string": "str",
    "bytes": "bytes",
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
}
"""The Python type by Kafka's. Numbers are int."""


@dataclasses.dataclass(frozen=True)
class MergedStruct:
    """A struct of a message with the fields of all versions."""

    message: str
    direction: Direction
    classes: Sequence[type]
    """The struct's class in each version that has it, the latest first."""

    @property
    def name(self) -> str:
        return self.classes[0].__name__

    @cached_property
    def fields(self) -> dict[str, list[dataclasses.Field[Any]]]:
        found: dict[str, list[dataclasses.Field[Any]]] = {}
        for one in self.classes:
            for field in dataclasses.fields(one):
                found.setdefault(field.name, []).append(field)
        return found

    def struct_in(self, name: str) -> MergedStruct | None:
        classes = [inner for field in self.fields[name] if (inner := struct_type(field.type)) is not None]
        return MergedStruct(self.message, self.direction, classes) if classes else None

    def walk(self) -> Iterator[MergedStruct]:
        """Yield the structs in this one before itself."""
        for name in self.fields:
            if (inner := self.struct_in(name)) is not None:
                yield from inner.walk()
        yield self


def messages_of(api: ApiKey) -> Iterator[MergedStruct]:
    """Yield the API's request and response, if kio reads and writes them."""
    row = VERSIONS[api]
    for direction in Direction:
        if (api, direction) in OWN_CODEC:
            continue
        versions = range(row.latest, row.oldest - 1, -1)
        classes = [struct_class(api, direction, version) for version in versions]
        yield MergedStruct(classes[0].__name__, direction, classes)


def stub(apis: Sequence[ApiKey]) -> str:
    """Return the text of one group's stub."""
    structs: dict[tuple[str, str], MergedStruct] = {}
    for api in apis:
        for message in messages_of(api):
            structs.update({(one.message, one.name): one for one in message.walk()})
    counts = Counter(name for _, name in structs)
    names = {(message, name): name if counts[name] == 1 else message + name for message, name in structs}
    body = "\n".join(_class_lines(one, names) for one in structs.values())
    imports = ["from collections.abc import Iterable", "from typing import TypedDict"]
    imports += ["from uuid import UUID"] if "UUID" in body else []
    return "\n".join(["# Written by `make map` from kio's classes.", "", *imports, "", body])


def _class_lines(struct: MergedStruct, names: Names) -> str:
    is_request = struct.direction is Direction.REQUEST
    head = f"class {names[struct.message, struct.name]}" + (":" if is_request else "(TypedDict, total=False):")
    lines = [f"    {name}: {_type(struct, name, names)}" for name in struct.fields]
    return "\n".join([head, *(lines or ["    pass"]), ""])


def _type(struct: MergedStruct, name: str, names: Names) -> str:
    fields = struct.fields[name]
    inner = struct.struct_in(name)
    kind = fields[0].metadata.get("kafka_type", "")
    text = _PLAIN_TYPES.get(kind, "int") if inner is None else names[inner.message, inner.name]
    if is_array(fields[0].type):
        text = f"tuple[{text}, ...]" if struct.direction is Direction.REQUEST else f"Iterable[{text}]"
    return text + (" | None" if any(is_optional(field.type) for field in fields) else "")


def stubs() -> dict[Path, str]:
    """Return the text of each stub by its path."""
    groups: dict[str, list[ApiKey]] = {}
    for api, group in {**API_GROUPS, **_CONTROLLERS_ALONE}.items():
        groups.setdefault(group, []).append(api)
    return {FOLDER / f"{group}.pyi": stub(apis) for group, apis in groups.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in stubs().items():
        path.write_text(text)
