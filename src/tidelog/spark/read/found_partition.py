"""A partition that a read covers, and the log directory it lies in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.storage.log.view.directory_state import DirectoryState


@dataclass(frozen=True, slots=True)
class FoundPartition:
    partition: TopicPartition
    directory: Path
    state: DirectoryState


def copies_of(found: Iterable[FoundPartition]) -> dict[TopicPartition, list[FoundPartition]]:
    """Return the partitions that lie in several directories."""
    entries: dict[TopicPartition, list[FoundPartition]] = {}
    for entry in found:
        entries.setdefault(entry.partition, []).append(entry)
    return {partition: some for partition, some in entries.items() if len(some) > 1}
