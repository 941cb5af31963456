"""The file ``mirror.properties`` of a copy: the source cluster, so that no other cluster is copied over it.

It is a Java properties file in the log directory, where Kafka ignores it. It is written before anything else, and
replaced atomically::

    version = 1
    source.cluster.id = MkU3OEVBNTcwNTJENDM2Qg
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tidelog.config.java_properties import load_properties, store_line
from tidelog.model import CheckpointError
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

MIRROR_PROPERTIES_FILE: Final = "mirror.properties"
_VERSION: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProperties:
    source_cluster_id: str

    @classmethod
    def parse(cls, data: bytes, *, path: Path | None = None) -> Self:
        """Parse the file. Raise CheckpointError for an unknown version, or if the cluster id is missing."""
        try:
            found = load_properties(data.decode("utf-8"))
        except ValueError as error:
            raise CheckpointError(f"not a readable {MIRROR_PROPERTIES_FILE}: {error}", path=path) from None
        if found.get("version") != _VERSION:
            raise CheckpointError(f"version {found.get('version')} is unknown, only {_VERSION} is known", path=path)
        cluster_id = found.get("source.cluster.id")
        if not cluster_id:
            raise CheckpointError("source.cluster.id is missing", path=path)
        return cls(source_cluster_id=cluster_id)

    def to_bytes(self) -> bytes:
        lines = [store_line("version", _VERSION), store_line("source.cluster.id", self.source_cluster_id)]
        return "".join(f"{line}\n" for line in lines).encode()

    @classmethod
    def read(cls, fs: FileSystem, path: Path) -> Self | None:
        """Read the file. Return None if it is missing."""
        return cls.parse(read_whole(fs, path), path=path) if fs.exists(path) else None

    def write(self, fs: FileSystem, path: Path) -> None:
        write_atomically(fs, path, self.to_bytes())
