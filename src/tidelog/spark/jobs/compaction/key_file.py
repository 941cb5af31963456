"""Keys on their way from one task to others: a file of blocks, of which each of the others reads one.

The file lies in a directory of the task's own and is nobody's after the job, so it is neither synced nor named with
care. Called by: the tasks of ``spread``.
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
    """Where a block lies; of ``size`` 0 where there are no keys."""

    path: Path
    position: int
    size: int


class KeyFile(NamedTuple):
    path: Path
    blocks: Mapping[int, KeyBlock]
    """By number of what they are for."""

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
