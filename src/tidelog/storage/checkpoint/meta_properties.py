"""The file ``meta.properties``: the cluster, broker and log directory that the files belong to.

It is a Java properties file. An empty comment and one with the time of writing come first. Then ``version``,
``cluster.id``, ``node.id`` (``broker.id`` in version 0, from ZooKeeper's time) and ``directory.id`` follow in the order
of Java's hash table. It is replaced atomically. Source: Kafka's ``MetaProperties``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from tidelog.config.java_properties import comments, load_properties, store_line
from tidelog.model import CheckpointError, StorageError
from tidelog.model.kafka_uuid import uuid_from_text, uuid_to_text
from tidelog.storage.checkpoint.checkpoint_text import parse_integer
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

META_PROPERTIES_FILE = "meta.properties"
_VERSIONS = (0, 1)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """``node_id`` is the broker id in version 0. ``written_at`` is the text of the second comment."""

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: uuid.UUID | None = None
    written_at: str | None = None

    @classmethod
    def parse(cls, data: bytes, *, path: Path | None = None) -> Self:
        """Parse the file. Raise CheckpointError for an unknown version, or if a field is malformed or missing."""
        try:
            text = data.decode("utf-8")
            found = load_properties(text)
            version = _integer(found, "version", "0")
            if version not in _VERSIONS:
                raise ValueError(f"version {version} is unknown")
            id_name = _id_name(version)
            directory_id = found.get("directory.id")
            meta = cls(
                version=version,
                cluster_id=found.get("cluster.id"),
                node_id=_integer(found, id_name) if id_name in found else None,
                directory_id=None if directory_id is None else uuid_from_text(directory_id),
                written_at=next((line for line in comments(text) if line), None),
            )
        except ValueError as error:
            raise CheckpointError(f"not a readable {META_PROPERTIES_FILE}: {error}", path=path) from None
        if version > 0 and (meta.cluster_id is None or meta.node_id is None):
            missing = "cluster.id" if meta.cluster_id is None else id_name
            raise CheckpointError(f"{missing} is missing, version {version} needs it", path=path)
        return meta

    def to_bytes(self) -> bytes:
        """Format the file as Kafka on Java 17 writes it."""
        lines = ["#"] if self.written_at is None else ["#", f"#{self.written_at}"]
        directory_id = None if self.directory_id is None else uuid_to_text(self.directory_id)
        values = {
            "node.id": self.node_id if self.version > 0 else None,
            "directory.id": directory_id,
            "broker.id": self.node_id if self.version == 0 else None,
            "version": self.version,
            "cluster.id": self.cluster_id,
        }
        lines += [store_line(key, str(value)) for key, value in values.items() if value is not None]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def read(cls, fs: FileSystem, path: Path) -> Self | None:
        """Read the file. Return None if it is missing."""
        return cls.parse(read_whole(fs, path), path=path) if fs.exists(path) else None

    @classmethod
    def read_or_none(cls, fs: FileSystem, path: Path) -> Self | None:
        """Read the file. Return None if it is missing or cannot be read: ``verify`` reports the error."""
        try:
            return cls.read(fs, path)
        except StorageError:
            return None

    def write(self, fs: FileSystem, path: Path) -> None:
        write_atomically(fs, path, self.to_bytes())


def written_at(now_ms: int) -> str:
    """Format a time in UTC as Java writes it into a properties file: ``Fri Nov 20 23:20:27 UTC 2026``."""
    at = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{_DAYS[at.weekday()]} {_MONTHS[at.month - 1]} {at.day:02} {at:%H:%M:%S} UTC {at.year}"


def _id_name(version: int) -> str:
    return "broker.id" if version == 0 else "node.id"


def _integer(found: dict[str, str], name: str, default: str = "") -> int:
    value = parse_integer(found.get(name, default).strip(), bits=32)
    if value is None:
        raise ValueError(f"{name} is not an integer: {found[name]!r}")
    return value
