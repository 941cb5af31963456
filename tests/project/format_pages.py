"""Parses the byte examples in docs/format, so that a test can hold each against the file it names.

Two kinds of fenced block::

    ```bytes SET/KIND/FILE POSITION        rows: hex, field, type, value; hex alone goes on with the row above
    ```text-of SET/KIND/FILE               the whole file, but for a final newline
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROW = re.compile(r"(?P<hex>[0-9a-f]{2}(?: [0-9a-f]{2})*)(?:\s{2,}(?P<name>\w+)\s+(?P<type>\w+)\s+(?P<value>.+))?")
INTEGERS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4}


@dataclass(slots=True, kw_only=True)
class Field:
    name: str
    type: str
    value: str
    data: bytes

    def decoded(self) -> str:
        """Return the meaning of the bytes as a page writes it."""
        if self.type in INTEGERS:
            assert len(self.data) == INTEGERS[self.type], f"{self.name}: {len(self.data)} bytes of {self.type}"
            return str(int.from_bytes(self.data, "big", signed=self.type.startswith("int")))
        if self.type in ("varint", "uvarint"):
            number = _unsigned_varint(self.data)
            return str(number if self.type == "uvarint" else (number >> 1) ^ -(number & 1))
        if self.type == "text":
            return json.dumps(self.data.decode())
        if self.type == "uuid":
            return base64.urlsafe_b64encode(self.data).decode().rstrip("=")
        assert self.type == "bytes", f"{self.name}: unknown type {self.type}"
        return f"{len(self.data)} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    page: Path
    file: str
    """SET/KIND/path below the unpacked directory."""
    position: int
    fields: tuple[Field, ...]
    text: str | None = None

    @property
    def data(self) -> bytes:
        return b"".join(field.data for field in self.fields)


def examples(page: Path) -> Iterator[Example]:
    lines = iter(page.read_text().splitlines())
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "```bytes":
            file, position = rest.split()
            fields = tuple(_fields(list(_block(lines))))
            yield Example(page=page, file=file, position=int(position), fields=fields)
        elif kind == "```text-of":
            yield Example(page=page, file=rest, position=0, fields=(), text="\n".join(_block(lines)))


def _block(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line == "```":
            return
        yield line


def _fields(rows: list[str]) -> Iterator[Field]:
    field: Field | None = None
    for row in rows:
        match = ROW.fullmatch(row.rstrip())
        assert match, f"not a row of an example: {row!r}"
        data = bytes.fromhex(match["hex"])
        if match["name"] is None:
            assert field, f"hex without a field: {row!r}"
            field.data += data
            continue
        if field:
            yield field
        field = Field(name=match["name"], type=match["type"], value=match["value"], data=data)
    if field:
        yield field


def _unsigned_varint(data: bytes) -> int:
    assert all(byte & 0x80 for byte in data[:-1]), f"a varint ends within {data.hex(' ')}"
    assert not data[-1] & 0x80, f"a varint goes on after {data.hex(' ')}"
    return sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data))
