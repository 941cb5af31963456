"""A read-only reader of a segment's ``.log`` in chunks: it never writes, creates or maps a file.

A chunk is a buffer that starts at a batch boundary, and the batch table of the complete batches in it. The next chunk
starts at the table's end, so a batch across the buffer's end is read again. For a batch larger than a chunk, the buffer
grows to its size (never past the end of the file, whatever its length field contains).

The reader uses ``pread``, not mmap: a running broker may truncate the file, and then an access to a mapping would end
the process with SIGBUS. An open reader can still read a file that was renamed or deleted.

Thread rule: several threads may read chunks of one reader; one of them calls ``close`` at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tidelog import kernel
from tidelog.kernel import BatchScan, BatchTable, Stop
from tidelog.storage.fs import File, FileSystem
from tidelog.storage.fs.os_errors import SystemCall
from tidelog.storage.segment.file_names import FileKind, FileState, segment_file
from tidelog.storage.segment.hints import OffsetHints, TimeHints, read_offset_hints, read_time_hints

CHUNK_BYTES = 8 * 1024 * 1024
_TABLE_BYTES = 2 * 1024 * 1024
"""The bytes of a table without a buffer: the columns of many small batches then stay in the CPU's cache, too."""
_BLOCK_BYTES = 512 * 1024
"""Blocks of this size stay in the CPU's cache from the read to the scan."""


class Chunk(NamedTuple):
    """The bytes and batches of a read. ``buffer[0]`` begins a batch; ``table.position`` counts from the file start."""

    buffer: memoryview
    table: BatchTable
    base_position: int
    """The position of ``buffer[0]`` in the file."""


class SegmentReader:
    """An open ``.log`` and, if needed, the hints from its indexes."""

    __slots__ = ("_directory", "_file", "_fs", "_offset_hints", "_state", "_time_hints", "base_offset")

    def __init__(
        self,
        fs: FileSystem,
        directory: Path,
        base_offset: int,
        *,
        state: FileState = FileState.LIVE,
        file: File | None = None,
    ) -> None:
        """Open the ``.log``, unless it is given as ``file``. Raise FileMissingError if the segment does not exist."""
        self.base_offset = base_offset
        self._fs = fs
        self._directory = directory
        self._state = state
        path = segment_file(directory, base_offset, FileKind.LOG, state)
        self._file = fs.open(path) if file is None else file
        self._offset_hints: OffsetHints | None = None
        self._time_hints: TimeHints | None = None

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size(self) -> int:
        """The current size in bytes; a running broker appends to its active segment."""
        return self._file.size

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunks(
        self,
        start_position: int = 0,
        end_position: int | None = None,
        *,
        verify_crc: bool = True,
        chunk_bytes: int = CHUNK_BYTES,
        first_chunk_bytes: int | None = None,
    ) -> Iterator[Chunk]:
        """Yield the chunks of ``[start_position, end_position)``; the default end is the file's size at the first step.

        ``start_position`` must be a batch boundary. The last chunk's ``table.stop`` tells the kind of the end: END,
        PARTIAL (inside a batch), or an error in the bytes at ``table.end_position``. The last chunk may have no rows. A
        batch with a wrong CRC is a row with ``crc_ok`` False; invalid bytes never raise an error here. With
        ``first_chunk_bytes``, chunks begin that small and double: useful if the caller may stop soon.
        """
        return file_chunks(
            self._file,
            start_position,
            end_position,
            verify_crc=verify_crc,
            chunk_bytes=chunk_bytes,
            first_chunk_bytes=first_chunk_bytes,
        )

    def tables(self) -> Iterator[BatchTable]:
        """Yield the tables of the file with checked CRCs, up to the first bytes that are no complete batch.

        This is quicker than ``chunks`` if the bytes are not needed. Raise StorageError if the file cannot be read.
        """
        position, end = 0, self.size
        block = kernel.take_buffer(_BLOCK_BYTES)
        is_last = False
        while position < end and not is_last:
            scan = kernel.BatchScan(position, expected_bytes=min(_TABLE_BYTES, end - position))
            while not is_last and scan.end_position < min(position + _TABLE_BYTES, end):
                is_last = not self._scan_block(scan, block, end)
            position = scan.end_position
            yield scan.table()

    def _scan_block(self, scan: BatchScan, block: memoryview, end: int) -> bool:
        """Scan the next block, or a larger one for a large batch. Return False at the end of the valid batches."""
        position = scan.end_position
        while True:
            asked = block[: end - position]
            count = self._file.pread_into(asked, position)
            if scan.add(asked[:count]) not in (Stop.END, Stop.PARTIAL):
                return False
            if scan.end_position > position:
                return True
            if count < len(block) or position + max(scan.partial_size, count + 1) > end:
                return False  # the batch reaches past the end, or the owner truncated the file
            block = kernel.take_buffer(min(max(scan.partial_size, 2 * count), end - position))

    def headers(self, start_position: int, end_position: int) -> Iterator[BatchTable]:
        """Yield the tables of ``[start_position, end_position)`` without checking CRCs. They end before
        ``end_position`` at bytes that are no complete batch.

        Records are not read if the file is local. Raise StorageError if the file cannot be read.
        """
        if not self._file.has_descriptor:
            yield from (chunk.table for chunk in self.chunks(start_position, end_position, verify_crc=False))
            return
        position, length = start_position, CHUNK_BYTES
        while position < end_position:
            with SystemCall("read", self._file.path):
                end = min(end_position, position + length)
                table = kernel.scan_headers(self._file.fileno(), position, end)
            if len(table):
                yield table
                position, length = table.end_position, CHUNK_BYTES
            elif table.stop is Stop.PARTIAL and max(length + 1, table.partial_size) <= end_position - position:
                length = max(table.partial_size, 2 * length)
            else:
                return

    def table(self, start_position: int = 0, end_position: int | None = None, *, verify_crc: bool = True) -> BatchTable:
        """Return the batch table of a complete range; ``stop`` and ``end_position`` come from the last chunk."""
        tables = [chunk.table for chunk in self.chunks(start_position, end_position, verify_crc=verify_crc)]
        return BatchTable.concat(tables) if tables else kernel.scan_batches(b"", base_position=start_position)

    def read(self, position: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``position``, or fewer at the end of the file."""
        return _read(self._file, position, length)

    @property
    def offset_hints(self) -> OffsetHints:
        """The valid prefix of the ``.index``, read once."""
        if self._offset_hints is None:
            path = segment_file(self._directory, self.base_offset, FileKind.INDEX, self._state)
            self._offset_hints = read_offset_hints(self._fs, path, self.base_offset, self.size)
        return self._offset_hints

    @property
    def time_hints(self) -> TimeHints:
        """The valid prefix of the ``.timeindex``, read once."""
        if self._time_hints is None:
            path = segment_file(self._directory, self.base_offset, FileKind.TIME_INDEX, self._state)
            self._time_hints = read_time_hints(self._fs, path, self.base_offset)
        return self._time_hints

    def position_of(self, offset: int) -> int:
        """Return a batch boundary at or before the batch with ``offset``: the index's if it is right, else 0.

        An entry is trusted only if a valid batch lies at its position and begins at or before ``offset``. Then all
        batches before that position are below ``offset``, even if the rest of the index is wrong.
        """
        position = self.offset_hints.floor(offset)
        if position == 0:
            return 0
        chunk = next(self.chunks(position, chunk_bytes=64 * 1024), None)
        if chunk is None or not len(chunk.table):
            return 0
        first = chunk.table.row(0)
        sound = first.crc_ok and self.base_offset <= first.base_offset <= offset
        return position if sound else 0


def file_chunks(
    file: File,
    start_position: int = 0,
    end_position: int | None = None,
    *,
    verify_crc: bool = True,
    chunk_bytes: int = CHUNK_BYTES,
    first_chunk_bytes: int | None = None,
) -> Iterator[Chunk]:
    """Yield the chunks of any open file of batches; see ``SegmentReader.chunks``."""
    position = start_position
    size = file.size
    end = size if end_position is None else min(end_position, size)
    usual = chunk_bytes if first_chunk_bytes is None else min(first_chunk_bytes, chunk_bytes)
    wanted = usual
    while position < end:
        asked = min(wanted, end - position)
        buffer = _read(file, position, asked)
        if len(buffer) < asked:
            end = position + len(buffer)  # the owner truncated the file
        table = kernel.scan_batches(buffer, base_position=position, verify_crc=verify_crc)
        last = table.stop not in (Stop.END, Stop.PARTIAL) or position + len(buffer) >= end
        if not len(table) and not last:
            # A batch that reaches past the end stays partial, even if more of it is read.
            last = position + table.partial_size > end
            wanted = max(table.partial_size, 2 * len(buffer))
            if not last:
                continue
        if len(buffer):
            yield Chunk(buffer, table, position)
        if last:
            return
        position = table.end_position
        usual = min(2 * usual, chunk_bytes)
        wanted = usual


def _read(file: File, position: int, length: int) -> memoryview:
    # A fresh buffer would cost as much as the scan, for zeroing and page faults, so buffers are reused.
    buffer = kernel.take_buffer(length)
    return buffer[: file.pread_into(buffer, position)]
