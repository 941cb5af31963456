"""Files of exported records in JSON lines, CSV, Arrow (IPC file) and Parquet, written piece by piece.

Every kind has the columns topic, partition, offset, timestamp, timestamp_type, key, value, headers. Their types in
Arrow and Parquet are string, int32, int64, timestamp[ms, UTC], int8 (-1 none, 0 create, 1 log append), binary, binary
and list<struct<key: string, value: binary>>. For text, ``record_rows`` defines the columns.

A file is written under its name with ``.tmp``, synced, and renamed by ``finish``. A crash leaves at most a ``.tmp``.
Memory holds one chunk of columns, and for Parquet one row group. Thread rule: one thread per file.
"""

from __future__ import annotations

import csv
import enum
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from tidelog.inspect.record_rows import RowShape, record_row
from tidelog.kernel import RecordColumns
from tidelog.model import TopicPartition
from tidelog.record.rows import iter_records

if TYPE_CHECKING:
    import pyarrow

_ROW_GROUP_BYTES = 64 * 1024 * 1024
_ROW_GROUP_ROWS = 512 * 1024


class ExportFormat(enum.StrEnum):
    """The value is also the file suffix."""

    JSONL = "jsonl"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


class _Body(Protocol):
    """The format-specific part of a file."""

    def write(self, partition: TopicPartition, columns: RecordColumns) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None:
        """Release the writer before the file is closed and removed. Never raises."""
        ...


class ExportFile:
    """A file being written. Every call but ``abandon`` may raise OSError."""

    def __init__(self, path: Path, form: ExportFormat, shape: RowShape) -> None:
        self.path = path
        self._temporary = path.with_name(path.name + ".tmp")
        self._file = self._temporary.open("wb")
        self._body: _Body | None = None
        try:
            self._body = _body(self._file, form, shape)
        except BaseException:
            self.abandon()
            raise

    def write(self, partition: TopicPartition, columns: RecordColumns) -> None:
        assert self._body is not None
        self._body.write(partition, columns)

    def finish(self) -> int:
        """Sync the file, rename it to its final name and return its size in bytes. The rename is durable on return."""
        assert self._body is not None
        self._body.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        self._temporary.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        return size

    def abandon(self) -> None:
        """Close and remove the temporary file."""
        if self._body is not None:
            self._body.abandon()
        with suppress(OSError):  # flushing the rest may fail on a full disk too
            self._file.close()
        self._temporary.unlink(missing_ok=True)


def _body(file: BinaryIO, form: ExportFormat, shape: RowShape) -> _Body:
    match form:
        case ExportFormat.JSONL:
            return _JsonLines(file, shape)
        case ExportFormat.CSV:
            return _Csv(file, shape)
        case ExportFormat.ARROW:
            return _Arrow(file)
        case ExportFormat.PARQUET:
            return _Parquet(file)


class _JsonLines:
    def __init__(self, file: BinaryIO, shape: RowShape) -> None:
        self._file = file
        self._shape = shape

    def write(self, partition: TopicPartition, columns: RecordColumns) -> None:
        rows = (record_row(partition, record, self._shape) for record in iter_records(columns))
        text = "".join([json.dumps(row, ensure_ascii=False) + "\n" for row in rows])
        self._file.write(text.encode("utf-8", "backslashreplace"))

    def finish(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class _Csv:
    def __init__(self, file: BinaryIO, shape: RowShape) -> None:
        self._file = file
        self._shape = shape
        self._write_lines([list(shape.columns)])

    def write(self, partition: TopicPartition, columns: RecordColumns) -> None:
        rows = (record_row(partition, record, self._shape) for record in iter_records(columns))
        self._write_lines([_csv_cell(row[name]) for name in self._shape.columns] for row in rows)

    def _write_lines(self, rows: Any) -> None:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._file.write(buffer.getvalue().encode("utf-8", "backslashreplace"))

    def finish(self) -> None:
        pass

    def abandon(self) -> None:
        pass


def _csv_cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | Mapping) else value


class _Arrow:
    def __init__(self, file: BinaryIO) -> None:
        import pyarrow

        self._writer = pyarrow.ipc.new_file(file, _schema())

    def write(self, partition: TopicPartition, columns: RecordColumns) -> None:
        self._writer.write_batch(_arrow_batch(partition, columns))

    def finish(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        pass


class _Parquet:
    """The Parquet body. It gathers chunks into row groups: readers work best with few large groups."""

    def __init__(self, file: BinaryIO) -> None:
        from pyarrow import parquet

        self._writer = parquet.ParquetWriter(file, _schema(), compression="zstd")
        self._batches: list[pyarrow.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, partition: TopicPartition, columns: RecordColumns) -> None:
        self._batches.append(_arrow_batch(partition, columns))
        self._rows += len(columns)
        self._bytes += columns.data_bytes
        if self._rows >= _ROW_GROUP_ROWS or self._bytes >= _ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow

        if self._batches:
            self._writer.write_table(pyarrow.Table.from_batches(self._batches), row_group_size=self._rows)
        self._batches, self._rows, self._bytes = [], 0, 0

    def finish(self) -> None:
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        from pyarrow import ArrowException

        try:
            self._writer.close()
        except (OSError, ValueError, ArrowException):
            self._writer.is_open = False  # otherwise the writer closes again when it is collected, and prints to stderr


def _schema() -> pyarrow.Schema:
    import pyarrow

    from tidelog.record.arrow import record_schema

    fields = [pyarrow.field("topic", pyarrow.string()), pyarrow.field("partition", pyarrow.int32())]
    return pyarrow.schema([*fields, *record_schema()])


def _arrow_batch(partition: TopicPartition, columns: RecordColumns) -> pyarrow.RecordBatch:
    import pyarrow

    from tidelog.record.arrow import to_arrow

    records = to_arrow(columns)
    names = pyarrow.repeat(pyarrow.scalar(partition.topic, pyarrow.string()), len(columns))
    numbers = pyarrow.repeat(pyarrow.scalar(partition.partition, pyarrow.int32()), len(columns))
    return pyarrow.RecordBatch.from_arrays([names, numbers, *records.columns], schema=_schema())
