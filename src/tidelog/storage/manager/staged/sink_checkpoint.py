"""The last committed batch of each stream in a log directory, so that a repeated commit is a no-op.

``tidelog-sink-checkpoint`` is a checkpoint like Kafka's, with entry lines ``query batch``. A stream's batch numbers
ascend, and a batch begins only after the previous one is done, so the last number suffices.

A crash leaves the old or the new file. Thread rule: writers hold the directory's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.model import CheckpointError
from tidelog.storage.checkpoint.checkpoint_text import format_checkpoint, parse_checkpoint, parse_integer
from tidelog.storage.fs import FileSystem, read_whole, write_atomically
from tidelog.storage.manager.staged.staged_commit import is_query_id

SINK_CHECKPOINT = "tidelog-sink-checkpoint"


def read_committed_batches(fs: FileSystem, directory: Path) -> dict[str, int]:
    """Return the last batch by query, empty if the file is missing. Raise CheckpointError if it is malformed."""
    path = directory / SINK_CHECKPOINT
    if not fs.exists(path):
        return {}
    batches: dict[str, int] = {}
    for query, batch in parse_checkpoint(read_whole(fs, path), _parse_line, path=path):
        if query in batches:
            raise CheckpointError(f"two entries for {query}", path=path)
        batches[query] = batch
    return batches


def write_committed_batches(fs: FileSystem, directory: Path, batches: Mapping[str, int]) -> None:
    lines = (f"{query} {batch}" for query, batch in sorted(batches.items()))
    write_atomically(fs, directory / SINK_CHECKPOINT, format_checkpoint(lines))


def _parse_line(line: str) -> tuple[str, int] | None:
    query, _, number = line.partition(" ")
    batch = parse_integer(number, bits=64)
    if not is_query_id(query) or batch is None or batch < 0:
        return None
    return query, batch
