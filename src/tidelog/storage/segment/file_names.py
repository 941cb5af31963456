"""The names of segment files and of partition directories. Pure.

::

    00000000000000002360.log                 twenty digits, the kind
    00000000000000002360.index.deleted       and, while the file comes or goes, a state
    topic-3                                  a partition directory
    topic-3.0f1e…c4-delete                   the same while it comes or goes: unique id (32 hex digits), suffix

A segment's files carry its base offset. A ``.snapshot`` carries the offset after the last record that it covers.
A cleaner or a split writes ``.cleaned`` files. A ``.swap`` file is complete and will replace the files that it covers.
A ``.deleted`` file waits for its delay. Any file name may end with ``.tmp`` (``write_atomically``).
Source: Kafka's ``LogFileUtils`` and ``LocalLog``.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from tidelog.model import DirectoryError, TopicPartition

MAX_OFFSET = 2**63 - 1
MAX_DIRECTORY_NAME_LENGTH = 255


class FileKind(enum.StrEnum):
    """The kind of a segment's file; the value is its extension."""

    LOG = ".log"
    INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TXN_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"


SEGMENT_KINDS = (FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
"""The files that are renamed together when a segment changes its state."""


class FileState(enum.StrEnum):
    """The state of a file; the value is the suffix after the extension."""

    LIVE = ""
    CLEANED = ".cleaned"
    SWAP = ".swap"
    DELETED = ".deleted"


OFFSET_DIGITS = 20
SUFFIXES = {kind + state: (kind, state) for kind in FileKind for state in FileState}
"""All possible texts after the digits, with their meaning."""


def parse_offset(digits: str) -> int | None:
    """Return the offset of twenty digits; None for any other text or a larger number."""
    if len(digits) != OFFSET_DIGITS or not digits.isdecimal() or not digits.isascii():
        return None
    offset = int(digits)
    return offset if offset <= MAX_OFFSET else None


class SegmentFileName(NamedTuple):
    offset: int
    kind: FileKind
    state: FileState = FileState.LIVE

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Parse a file name; None if it is not a segment file's (or its number is not an offset)."""
        known = SUFFIXES.get(name[OFFSET_DIGITS:])
        offset = parse_offset(name[:OFFSET_DIGITS])
        return None if known is None or offset is None else cls(offset, *known)

    def __str__(self) -> str:
        return f"{self.offset:020d}{self.kind}{self.state}"

    def in_directory(self, directory: Path) -> Path:
        return directory / str(self)


@lru_cache(maxsize=1024)
def segment_file(directory: Path, offset: int, kind: FileKind, state: FileState = FileState.LIVE) -> Path:
    """Return the path of a segment's file (or of a producer snapshot). Loading a log asks for the same paths often."""
    return directory / f"{offset:020d}{kind}{state}"


class DirectoryPurpose(enum.StrEnum):
    """The purpose of a partition directory; the value is its suffix."""

    LIVE = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


_PURPOSES = (DirectoryPurpose.DELETE, DirectoryPurpose.FUTURE, DirectoryPurpose.STRAY)


class PartitionDirectoryName(NamedTuple):
    """A parsed directory name. A long topic is shortened in ``-delete`` and ``-stray`` names: it may be a prefix."""

    topic_partition: TopicPartition
    purpose: DirectoryPurpose = DirectoryPurpose.LIVE
    unique_id: str = ""

    @classmethod
    def parse(cls, name: str) -> Self:
        """Parse a directory name. Raise DirectoryError if it has none of the four forms."""
        if not name.endswith(_PURPOSES):
            return cls(TopicPartition.from_directory_name(name))
        stem, dash, word = name.rpartition("-")
        purpose = DirectoryPurpose(dash + word)
        stem, dot, unique_id = stem.rpartition(".")
        if not dot or not unique_id:
            raise DirectoryError(
                f"'{name}' is not a partition directory: its name should be TOPIC-PARTITION.ID{purpose}"
            )
        return cls(TopicPartition.from_directory_name(stem), purpose, unique_id)

    @classmethod
    def of(cls, topic_partition: TopicPartition, purpose: DirectoryPurpose, unique_id: str) -> Self:
        """Return the new name for a directory. ``-delete`` and ``-stray`` shorten the topic to fit 255 characters."""
        rest = len(f"-{topic_partition.partition}.{unique_id}{purpose.value}")
        topic = topic_partition.topic
        if purpose in (DirectoryPurpose.DELETE, DirectoryPurpose.STRAY):
            topic = topic[: MAX_DIRECTORY_NAME_LENGTH - rest]
        return cls(TopicPartition(topic, topic_partition.partition), purpose, unique_id)

    def __str__(self) -> str:
        if self.purpose is DirectoryPurpose.LIVE:
            return self.topic_partition.directory_name
        return f"{self.topic_partition.directory_name}.{self.unique_id}{self.purpose.value}"
