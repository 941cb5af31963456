"""A file of key blocks that one task writes, and of which every other task reads one block.

The file lies in the task's own staging directory and is worthless after the job. So it is not synced, and its name need
not be unique.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tidelog.spark.jobs.compaction.key_ranges import KEYS, from_block
from tidelog.storage.fs import FileSystem

_NAME = "keys"


class KeyBlock(NamedTuple):
    """The place of a block. ``size`` is 0 if there are no keys."""

    path: Path
    position: int
    size: int


class KeyFile(NamedTuple):
    path: Path
    blocks: Mapping[int, KeyBlock]
    """The blocks by the number of the range or group that they are for."""

    def block(self, number: int) -> KeyBlock:
        return self.blocks.get(number, KeyBlock(self.path, 0, 0))


def write_keys(fs: FileSystem, directory: Path, blocks: Iterable[tuple[int, bytes]]) -> KeyFile:
    path, position = directory / _NAME, 0
    places = {}
    with fs.open(path, create=True) as file:
        for number, block in blocks:
            file.pwrite(block, position)
            places[number] = KeyBlock(path, position, len(block))
            position += len(block)
    return KeyFile(path, places)


def read_keys(fs: FileSystem, blocks: Iterable[KeyBlock]) -> pa.Table:
    tables = [KEYS.empty_table()]
    for block in blocks:
        if block.size:
            with fs.open(block.path) as file:
                tables.append(from_block(file.pread(block.size, block.position)))
    return pa.concat_tables(tables)
