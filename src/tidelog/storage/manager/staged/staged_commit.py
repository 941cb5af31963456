"""A commit of staged files to partitions, the names of these files, and the intent that records a decided commit.

A staged file is named::

    .tidelog-staged~QUERY~BATCH~WRITER~NUMBER

The files are in the log directory itself, because brokers ignore files there but refuse to start with unknown
directories. QUERY owns them. BATCH is the number of a stream's batch, or ``once``. WRITER is one attempt to write a
part of the batch, and NUMBER counts its files. The writer reports a file's partition separately, because a topic name
may be as long as a file name. QUERY and WRITER are ASCII letters, digits, dots, dashes and underscores.

The intent is ``tidelog-sink-intent`` in the log directory, in JSON, written atomically::

    {
        "version": 0,
        "query": "…",
        "batch": 7,
        "partitions": [{"topic": "t", "partition": 0, "files": [{"name": ".tidelog-staged~…", "size": 4711}]}],
    }

While it exists, every owner that opens the directory for writing carries it out first. ``batch`` is null if the commit
belongs to no stream. An unreadable intent is an error for these owners, because a decided commit must not be lost.
Thread rule: writers hold the directory's lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from tidelog.model import CheckpointError, TopicPartition
from tidelog.model.topic_partition import is_legal_topic
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

PREFIX = ".tidelog-staged~"
_ONCE = "once"
_QUERY = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_NAME = re.compile(
    re.escape(PREFIX) + r"([A-Za-z0-9._-]{1,100})~(once|0|[1-9][0-9]{0,18})~([A-Za-z0-9._-]{1,64})~([0-9]{1,9})",
    re.ASCII,
)
INTENT_FILE = "tidelog-sink-intent"
_VERSION = 0


class StagedName(NamedTuple):
    query: str
    batch: int | None
    """None if the file belongs to no stream."""
    writer: str
    number: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse a file name. Return None for another form."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        query, batch, writer, number = found.groups()
        return cls(query, None if batch == _ONCE else int(batch), writer, int(number))

    def __str__(self) -> str:
        batch = _ONCE if self.batch is None else self.batch
        return f"{PREFIX}{self.query}~{batch}~{self.writer}~{self.number}"


def is_query_id(text: str) -> bool:
    return _QUERY.fullmatch(text) is not None


class StagedFile(NamedTuple):
    name: str
    size: int
    """The size in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCommit:
    """``files`` has the sequence of their records. Invalid names are a ValueError."""

    query: str
    batch: int | None
    """None if the commit belongs to no stream, so it is never repeated."""
    files: Mapping[TopicPartition, tuple[StagedFile, ...]]

    def __post_init__(self) -> None:
        if not is_query_id(self.query):
            raise ValueError(f"a query is named by up to 100 letters, digits, '.', '-' and '_', not {self.query!r}")
        if self.batch is not None and self.batch < 0:
            raise ValueError(f"a batch number must not be negative: {self.batch}")
        for partition in self.files:
            if not is_legal_topic(partition.topic) or partition.partition < 0:
                raise ValueError(f"{partition} is not a partition")
        for name in self.names:
            parsed = StagedName.parse(name)
            if parsed is None or (parsed.query, parsed.batch) != (self.query, self.batch):
                raise ValueError(f"{name} is not the name of a staged file of this commit")
        if len(set(self.names)) != len(self.names):
            raise ValueError("a staged file is named twice")

    @property
    def names(self) -> list[str]:
        return [file.name for files in self.files.values() for file in files]

    def __str__(self) -> str:
        return self.query if self.batch is None else f"batch {self.batch} of {self.query}"

    def supersedes(self, staged: StagedName) -> bool:
        """Return True if this commit makes the file obsolete: same query, same or earlier batch."""
        if staged.query != self.query or (staged.batch is None) != (self.batch is None):
            return False
        return staged.batch is None or self.batch is None or staged.batch <= self.batch

    def format(self) -> bytes:
        partitions = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "files": [{"name": file.name, "size": file.size} for file in files],
            }
            for partition, files in self.files.items()
        ]
        fields = {"version": _VERSION, "query": self.query, "batch": self.batch, "partitions": partitions}
        return json.dumps(fields, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def parse(cls, data: bytes, *, path: Path | None = None) -> StagedCommit:
        """Parse an intent. Raise CheckpointError if it is incomplete or malformed."""
        try:
            fields = json.loads(data)
            if fields["version"] != _VERSION:
                raise CheckpointError(f"version {fields['version']!r} is unknown, {_VERSION} was expected", path=path)
            files: dict[TopicPartition, tuple[StagedFile, ...]] = {}
            for part in fields["partitions"]:
                partition = TopicPartition(_text(part["topic"]), _number(part["partition"]))
                if partition in files:
                    raise ValueError(f"two entries for {partition}")
                files[partition] = tuple(StagedFile(_text(one["name"]), _number(one["size"])) for one in part["files"])
            batch = fields["batch"]
            return cls(query=_text(fields["query"]), batch=None if batch is None else _number(batch), files=files)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"not the intent of a commit: {error!r}", path=path) from None


def read_intent(fs: FileSystem, directory: Path) -> StagedCommit | None:
    """Return a directory's decided, unfinished commit or None. Raise CheckpointError if it is malformed."""
    path = directory / INTENT_FILE
    return StagedCommit.parse(read_whole(fs, path), path=path) if fs.exists(path) else None


def write_intent(fs: FileSystem, directory: Path, commit: StagedCommit) -> None:
    write_atomically(fs, directory / INTENT_FILE, commit.format())


def remove_intent(fs: FileSystem, directory: Path) -> None:
    fs.remove(directory / INTENT_FILE)
    fs.sync_dir(directory)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not an integer")
    return value
