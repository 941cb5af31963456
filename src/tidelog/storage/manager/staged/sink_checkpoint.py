"""Which batch of each stream was committed last to a log directory: what makes a repeated commit do nothing.

``tidelog-sink-checkpoint`` is a checkpoint like Kafka's, an entry a line: ``query batch``. A stream's batches are
numbered upwards, and one is only begun when the one before is done, so the last number says all.

A crash leaves the old or the new file. Called by: ``roll_forward``, ``commit``. Thread rule: writers hold the
directory's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidelog.model import CheckpointError
from tidelog.storage.checkpoint.checkpoint_text import format_checkpoint, parse_checkpoint, parse_integer
from tidelog.storage.fs import FileSystem, read_whole, write_atomically
from tidelog.storage.manager.staged.staged_name import is_query_id

SINK_CHECKPOINT = "tidelog-sink-checkpoint"


def read_committed_batches(fs: FileSystem, directory: Path) -> dict[str, int]:
    """The last batch by query; empty where the file is missing. CheckpointError where it cannot be understood."""
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
