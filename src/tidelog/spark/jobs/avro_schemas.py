"""The schemas of a column in Confluent's wire format: those of its writers by id, and one for the result.

They come from the topic ``_schemas`` of log directories, or from folders with files ``ID.avsc``, and are read once,
where the column is made. A schema that a registry has deleted is kept while the topic has it, because older records
need it. Reads only. Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidelog.inspect.avro.document import self_contained, without_logical_types
from tidelog.inspect.avro.registry_log import SCHEMAS_TOPIC, RegistryLog
from tidelog.inspect.avro.schemas import SCHEMA_SUFFIX, Schemas, merged, read_schema_folder
from tidelog.inspect.avro.stored_schema import SchemaError, SchemaType, StoredSchema
from tidelog.inspect.schema_topic import read_registry_log
from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.jobs.avro_types import LOGICAL_TYPES
from tidelog.storage.fs import BY_PATH, path_of
from tidelog.storage.log.view.log_view import LogView

_SHOWN: Final = 10
Paths = str | Path | Iterable[str | Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSchemas:
    """Schemas are self-contained documents with the logical types that Spark has.

    ``unusable`` has the reasons of ids whose schemas cannot be used. ``place`` is where the schemas are from.
    """

    reader: Any
    writers: Mapping[int, Any]
    unusable: Mapping[int, str]
    place: str

    @classmethod
    def read(cls, paths: Paths, reader_schema: str | int | None) -> ColumnSchemas:
        """Read the schemas. Raise ConfigError if there are none, or if the reader schema is unclear or missing."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        place = ", ".join(map(str, given))
        schemas = _read_schemas(path_of(path) for path in given)
        if not len(schemas):
            raise ConfigError(f"{place} has no schema: name a log directory with the topic _schemas, or a folder")
        reader, stored = _Choice(schemas, place).choose(reader_schema)
        writers, unusable = dict[int, Any](), dict[int, str]()
        for one in stored:
            try:
                writers[one.id] = _document(one, schemas)
            except SchemaError as error:
                unusable[one.id] = error.message
        return cls(reader=reader, writers=writers, unusable=unusable, place=place)


def _read_schemas(paths: Iterable[Path]) -> Schemas:
    folder, logs = dict[int, StoredSchema](), list[RegistryLog]()
    partition = TopicPartition(SCHEMAS_TOPIC, 0).directory_name
    for path in paths:
        names = BY_PATH.list_names(path)
        if partition in names:
            logs.append(read_registry_log(LogView(BY_PATH, path / partition), lambda _: None))
        elif any(name.endswith(SCHEMA_SUFFIX) for name in names):
            folder |= read_schema_folder(BY_PATH, path)
        else:
            raise ConfigError(f"{path} has neither the topic {SCHEMAS_TOPIC} nor files named ID{SCHEMA_SUFFIX}")
    return merged(folder, logs)


class _Choice:
    """The choice of the reader schema, and with it of the writers' schemas.

    ==============  ==========================================  =====================================================
    given           the reader schema                           the writers' schemas
    ==============  ==========================================  =====================================================
    JSON            the given one                               all
    an id           the schema with this id                     all
    a subject       its latest version that is not deleted      all versions of the subject
    None            that of the only subject or the only file   all versions of the subject, or the file
    ==============  ==========================================  =====================================================
    """

    def __init__(self, schemas: Schemas, place: str) -> None:
        self._schemas = schemas
        self._place = place
        self._subjects: dict[str, Mapping[int, StoredSchema]] = {}
        for log in reversed(schemas.logs):
            self._subjects |= log.subjects()

    def choose(self, given: str | int | None) -> tuple[Any, Iterable[StoredSchema]]:
        every = self._schemas.by_id.values()
        if given is None:
            given = self._only_one()
        if isinstance(given, int):
            stored = self._schemas.by_id.get(given)
            if stored is None:
                raise ConfigError(f"the reader schema has the id {given}, which {self._place} does not have")
            return self._reader(stored), every
        if given.lstrip()[:1] in ("{", "[", '"'):
            try:
                return _with_known_types(self_contained([given])), every
            except SchemaError as error:
                raise ConfigError(f"the reader schema cannot be used: {error.message}") from None
        versions = self._subjects.get(given, {})
        live = [stored for stored in versions.values() if not stored.is_deleted]
        if not live:
            raise ConfigError(
                f"{self._place} has no subject {given} with a schema; {self._known()}. A reader schema is JSON,"
                " an id or a subject"
            )
        return self._reader(max(live, key=lambda stored: stored.version)), versions.values()

    def _only_one(self) -> str | int:
        subjects = list(self._live_avro_subjects())
        files = [number for number, stored in self._schemas.by_id.items() if not stored.subject]
        if len(subjects) == 1 and not files:
            return subjects[0]
        if len(files) == 1 and not subjects:
            return files[0]
        raise ConfigError(
            f"{self._place} has several schemas: set reader_schema to the subject of the column, to an id, or to"
            f" JSON; {self._known()}"
        )

    def _live_avro_subjects(self) -> Iterator[str]:
        for subject, versions in self._subjects.items():
            if any(stored.type is SchemaType.AVRO and not stored.is_deleted for stored in versions.values()):
                yield subject

    def _known(self) -> str:
        subjects = sorted(self._live_avro_subjects())
        shown = ", ".join(subjects[:_SHOWN]) or "none"
        return f"its subjects with Avro are {shown}{' …' if len(subjects) > _SHOWN else ''}"

    def _reader(self, stored: StoredSchema) -> Any:
        try:
            return _document(stored, self._schemas)
        except SchemaError as error:
            raise ConfigError(f"the reader schema, with id {stored.id}, cannot be used: {error.message}") from None


def _document(stored: StoredSchema, schemas: Schemas) -> Any:
    if stored.type is not SchemaType.AVRO:
        raise SchemaError(f"it is {stored.type}, and from_avro decodes only Avro")
    return _with_known_types(self_contained([one.text for one in schemas.with_references(stored)]))


def _with_known_types(document: Any) -> Any:
    return without_logical_types(document, LOGICAL_TYPES)
