"""Keys with offsets on their way between tasks: split by ranges of the keys' hashes, merged again, and kept in files.

The code works on whole columns. A block is a table as bytes (an Arrow stream). The hash only has to spread keys evenly.
It is the sum over a key's bytes, each multiplied by a factor for its place, then mixed. Thread rule: one thread, since
Spark gives every task its core.

A task writes a ``KeyFile`` of blocks, and every other task reads one block of it. The file lies in the task's own
staging directory and is worthless after the job. So it is not synced, and its name need not be unique.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.storage.fs import FileSystem

KEYS = pa.schema([("number", pa.int32()), ("key", pa.binary()), ("latest", pa.int64())])
"""``number`` is a group that has the key. ``latest`` is the key's latest dirty offset, null if there is none."""

_SEED = 20
_MIX = np.uint64(0x9E3779B97F4A7C15)


def split_by_number(table: pa.Table, columns: npt.NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Yield the rows of ``table`` in one block for each number in ``columns``, which has one number per row."""
    order = np.argsort(columns, kind="stable")
    taken, numbers = table.take(pa.array(order)), columns[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(numbers)]):
        yield int(numbers[start]), to_block(taken.slice(start, end - start))


def ranges_of(keys: pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
    """Return, for each key, the number of the hash range (of ``count``) that it belongs to."""
    hashes = [_hashes(chunk) for chunk in keys.chunks]
    whole = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
    return ((whole >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)


def newest(tables: Iterable[pa.Table]) -> pa.Table:
    """Return one row for each group and key, with the largest offset."""
    table = pa.concat_tables([KEYS.empty_table(), *tables])
    found = table.group_by(["number", "key"], use_threads=False).aggregate([("latest", "max")])
    return found.rename_columns({"latest_max": "latest"}).select(KEYS.names)


def newest_of_all_groups(table: pa.Table) -> pa.Table:
    """Return the same groups and keys, each with the key's largest offset in any group. Keys without an offset are left
    out."""
    largest = table.group_by("key", use_threads=False).aggregate([("latest", "max")])
    largest = largest.rename_columns({"latest_max": "largest"})
    joined = table.select(["number", "key"]).join(largest, keys="key", use_threads=False)
    return joined.rename_columns({"largest": "latest"}).select(KEYS.names).drop_null()


def to_block(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def from_block(block: bytes) -> pa.Table:
    return pa.ipc.open_stream(block).read_all()


def _hashes(keys: pa.BinaryArray) -> npt.NDArray[np.uint64]:
    bounds, data = key_buffers(keys)
    lengths = np.diff(bounds)
    first, content = int(bounds[0]), data[bounds[0] : bounds[-1]].astype(np.uint64)
    place = np.arange(len(content)) - np.repeat(bounds[:-1] - first, lengths)
    factors = np.random.default_rng(_SEED).integers(1, 2**63, int(lengths.max(initial=0)) + 1, dtype=np.uint64) | 1
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((content + 1) * factors[place])])
    totals = sums[bounds[1:] - first] - sums[bounds[:-1] - first]
    mixed: npt.NDArray[np.uint64] = (totals ^ totals >> np.uint64(31)) * _MIX
    return mixed


def key_buffers(keys: pa.BinaryArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return n + 1 bounds and the bytes between them. No key may be null."""
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    return bounds, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


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
