"""All known schemas by id, and their decoders: from a folder of ``ID.avsc`` files and from registries' topics.

A schema of the folder comes before a registry's with the same id. Thread rule: any thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tidelog.inspect.avro.decoder import AvroDecoder
from tidelog.inspect.avro.registry_log import MOST_TEXT_BYTES, RegistryLog
from tidelog.inspect.avro.stored_schema import SchemaError, StoredSchema
from tidelog.model import TidelogError
from tidelog.storage.fs import FileSystem

SCHEMA_SUFFIX: Final = ".avsc"
_MOST_DECODERS: Final = 200
_MOST_FILES: Final = 10_000
_MOST_REFERENCES: Final = 100


class Schemas:
    """The schemas of a moment."""

    def __init__(self, by_id: Mapping[int, StoredSchema], logs: Sequence[RegistryLog] = ()) -> None:
        self.by_id = by_id
        self.logs = logs
        self._lock = threading.Lock()
        self._decoders: OrderedDict[int, AvroDecoder | SchemaError] = OrderedDict()

    def __len__(self) -> int:
        return len(self.by_id)

    def decode(self, number: int, data: bytes) -> Any:
        """Decode a value of the Avro schema ``number``. Raise SchemaError."""
        decoder = self._decoder(number)
        if isinstance(decoder, SchemaError):
            raise SchemaError(decoder.message)
        return decoder.decode(data)

    def _decoder(self, number: int) -> AvroDecoder | SchemaError:
        with self._lock:
            found = self._decoders.get(number)
            if found is not None:
                self._decoders.move_to_end(number)
                return found
        try:
            found = AvroDecoder([one.text for one in self.with_references(self.by_id[number])])
        except SchemaError as error:
            found = error
        with self._lock:
            self._decoders[number] = found
            while len(self._decoders) > _MOST_DECODERS:
                self._decoders.popitem(last=False)
        return found

    def with_references(self, schema: StoredSchema) -> list[StoredSchema]:
        """Return the schemas that a schema refers to, each after its own references, and the schema at the end."""
        found: dict[tuple[str, int], StoredSchema] = {}
        entered: set[tuple[str, int]] = set()

        def visit(one: StoredSchema, depth: int) -> None:
            place = (one.subject, one.version)
            if place in entered:
                return
            entered.add(place)
            if len(entered) > _MOST_REFERENCES or depth > _MOST_REFERENCES:
                raise SchemaError(f"the schema needs more than {_MOST_REFERENCES} others")
            for reference in one.references:
                visit(self._version(reference.subject, reference.version), depth + 1)
            found[place] = one

        visit(schema, 0)
        return list(found.values())

    def _version(self, subject: str, version: int) -> StoredSchema:
        for log in self.logs:
            found = log.version(subject, version)
            if found is not None:
                return found
        raise SchemaError(f"the schema refers to version {version} of the subject {subject}, which is missing")


def read_schema_folder(fs: FileSystem, folder: Path) -> dict[int, StoredSchema]:
    """Read the files ``ID.avsc`` of a folder. Raise DirectoryError if it cannot be listed."""
    found = {}
    for name in fs.list_names(folder)[:_MOST_FILES]:
        number = name.removesuffix(SCHEMA_SUFFIX)
        if number == name or not (number.isascii() and number.isdigit()) or len(number) > 10:
            continue
        try:
            with fs.open(folder / name) as file:
                data = file.pread(MOST_TEXT_BYTES + 1, 0)
        except TidelogError:
            continue
        found[int(number)] = StoredSchema(id=int(number), text=data.decode(errors="replace"))
    return found


def merged(folder: Mapping[int, StoredSchema], logs: Sequence[RegistryLog]) -> Schemas:
    """Return the schemas of a folder and of registries' logs."""
    by_id: dict[int, StoredSchema] = {}
    for log in reversed(logs):
        by_id |= log.by_id()
    return Schemas(by_id | dict(folder), logs)
