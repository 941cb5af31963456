"""The file ``partition.metadata``: a partition's topic id, which differs after a topic is recreated.

The contents are ``version: 0``, a line end, ``topic_id: `` and the id in base64, without a line end. The file is
replaced atomically. Source: Kafka's ``PartitionMetadataFile`` (KIP-516).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidelog.model import CheckpointError, FileMissingError
from tidelog.model.kafka_uuid import uuid_from_text, uuid_to_text
from tidelog.storage.checkpoint.checkpoint_text import checkpoint_lines, line_error, parse_integer
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

PARTITION_METADATA_FILE = "partition.metadata"
_VERSION = 0
_NO_ID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    topic_id: uuid.UUID

    @property
    def topic_id_text(self) -> str:
        """The topic id in Kafka's text form."""
        return uuid_to_text(self.topic_id)

    @classmethod
    def parse(cls, data: bytes, *, path: Path | None = None) -> Self:
        """Parse the file. Raise CheckpointError for another version, a malformed line or the all-zero id ("none")."""
        lines = checkpoint_lines(data, path)
        if len(lines) != 2:
            raise CheckpointError(f"2 lines were expected, but there are {len(lines)}", path=path)
        version = parse_integer(_value(lines[0], 1, "version", path), bits=32)
        if version != _VERSION:
            raise line_error(f"a version other than {_VERSION}", 1, lines[0], path)
        try:
            topic_id = uuid_from_text(_value(lines[1], 2, "topic_id", path))
        except ValueError as error:
            raise line_error(str(error), 2, lines[1], path) from None
        if topic_id == _NO_ID:
            raise line_error("the all-zero id is not a topic id", 2, lines[1], path)
        return cls(topic_id=topic_id)

    def to_bytes(self) -> bytes:
        return f"version: {_VERSION}\ntopic_id: {self.topic_id_text}".encode()

    @classmethod
    def read(cls, fs: FileSystem, path: Path) -> Self | None:
        """Read the file. Return None if it is missing (a topic created before Kafka 2.8)."""
        try:
            data = read_whole(fs, path)
        except FileMissingError:
            return None
        return cls.parse(data, path=path)

    def write(self, fs: FileSystem, path: Path) -> None:
        write_atomically(fs, path, self.to_bytes())


def _value(line: str, number: int, name: str, path: Path | None) -> str:
    found, colon, value = line.partition(":")
    if found != name or not colon:
        raise line_error(f"'{name}: ...' was expected", number, line, path)
    return value.strip()
