"""The ``index`` table: a row for every entry of ``.index``, ``.timeindex`` and ``.txnindex``.

No log is read.

===============  ====================================================================================
``kind``         the columns that are not null
===============  ====================================================================================
``offset``       ``offset``, ``position``: the position in the ``.log`` of the batch that ends with it
``time``         ``timestamp``, ``offset``: the largest timestamp up to there
``transaction``  ``producerId``, ``firstOffset``, ``lastOffset``, ``lastStableOffset`` of an aborted one
===============  ====================================================================================

Zeros after the entries are preallocation, wherever they stand. Other bytes after them are damage, unless a broker has
not finished the file: in the active segment, and in segments that it recovers at its next start. Only ``verify`` checks
if the entries match the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tidelog.model import FileMissingError, IndexCorruptError, TidelogError
from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.schema import TABLES
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.read.whole_partition import INDEX_KINDS, WholePartition
from tidelog.spark.rows.storage_rows import timestamps
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.index.offset_index import OffsetIndexReader
from tidelog.storage.index.time_index import TimeIndexReader
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndexReader
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.segment.file_names import FileKind

_STEP_BYTES = 8 * 12 * 1024
"""A multiple of both preallocated indexes' entry sizes."""

_Columns = dict[str, pa.Array]


def index_rows(whole: WholePartition, _options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    view = whole.view()
    for segment in view.state.segments:
        unfinished = _is_unfinished(view, segment)
        for kind in INDEX_KINDS:
            if kind not in segment.files.kinds:
                continue
            path = segment.files.path(view.directory, kind)
            try:
                data = _written(view.fs, path) if unfinished else read_whole(view.fs, path)
            except FileMissingError:
                if view.condition is not DirectoryCondition.HELD:
                    raise
                continue  # its owner deleted the segment meanwhile
            columns, error = _entries(kind, data, segment.base_offset, path)
            yield _batch(columns, whole, segment, kind)
            if error is not None and not unfinished:
                yield error


def _is_unfinished(view: LogView, segment: ViewSegment) -> bool:
    is_active = segment.base_offset == view.state.segments.last.base_offset
    return (is_active and view.condition is DirectoryCondition.HELD) or view.state.was_recovered(segment)


def _written(fs: FileSystem, path: Path) -> bytes:
    """Read a preallocated file up to the first step of zeros. It may have 10 MiB of zeros after a few entries."""
    data = b""
    with fs.open(path) as file:
        while True:
            step = file.pread(_STEP_BYTES, len(data))
            data += step
            if len(step) < _STEP_BYTES or step.count(0) == len(step):
                return data


def _entries(kind: FileKind, data: bytes, base_offset: int, path: Path) -> tuple[_Columns, IndexCorruptError | None]:
    """Return the valid entries as columns, and the error after them."""
    if kind is FileKind.INDEX:
        by_offset = OffsetIndexReader(data, base_offset, path=path).valid_prefix()
        offsets, positions = by_offset.entries()
        known = {"offset": pa.array(offsets), "position": pa.array(positions)}
        return known, _rest(data, len(by_offset) * by_offset.ENTRY_SIZE, path)
    if kind is FileKind.TIME_INDEX:
        by_time = TimeIndexReader(data, base_offset, path=path).valid_prefix()
        times, offsets = by_time.entries()
        known = {"timestamp": timestamps(times), "offset": pa.array(offsets)}
        return known, _rest(data, len(by_time) * by_time.ENTRY_SIZE, path)
    return _aborted(TransactionIndexReader(data, base_offset, path=path), data, path)


def _aborted(reader: TransactionIndexReader, data: bytes, path: Path) -> tuple[_Columns, IndexCorruptError | None]:
    error = _rest(data, len(reader) * reader.ENTRY_SIZE, path)
    entries: list[AbortedTxn] = []
    try:
        entries.extend(reader)
    except IndexCorruptError as damage:
        error = damage
    fields = np.array(entries, np.int64).reshape(-1, 4)
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return {name: pa.array(fields[:, column]) for column, name in enumerate(names)}, error


def _rest(data: bytes, position: int, path: Path) -> IndexCorruptError | None:
    if data.count(0, position) == len(data) - position:
        return None
    return IndexCorruptError(
        f"{len(data) - position} bytes after the last ascending entry are not valid entries",
        path=path,
        position=position,
    )


def _batch(columns: _Columns, whole: WholePartition, segment: ViewSegment, kind: FileKind) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    every = columns | {
        "topic": pa.repeat(whole.partition.topic, count),
        "partition": pa.repeat(pa.scalar(whole.partition.partition, pa.int32()), count),
        "segmentBaseOffset": pa.repeat(pa.scalar(segment.base_offset, pa.int64()), count),
        "kind": pa.repeat(_KIND_NAMES[kind], count),
        "entry": pa.array(np.arange(count, dtype=np.int32)),
        "logDir": pa.repeat(whole.log_dir, count),
    }
    schema = TABLES[Mode.INDEX]
    arrays = [every[field.name] if field.name in every else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


_KIND_NAMES = {FileKind.INDEX: "offset", FileKind.TIME_INDEX: "time", FileKind.TXN_INDEX: "transaction"}
