"""Read one segment's ``.log`` in chunks, as whoever finds the file: it never writes, creates or maps anything.

A chunk is a buffer that starts at a batch boundary and the batch table of the whole batches in it. The next chunk
starts where the table ended, so a batch that the buffer's end cuts in two is read again, whole; a batch larger than a
chunk makes the buffer grow to its size (never past what the file holds, whatever its length field says).

The bytes come by ``pread``, not by mmap: a running broker may truncate the file, and a mapping would then end the
process with SIGBUS. An open reader goes on reading a file that was renamed or deleted meanwhile.

Called by: the view, recovery, verification, counting, the cleaner's planner. Thread rule: chunks of one reader may be
read from several threads, ``close`` by one, after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tidelog import kernel
from tidelog.kernel import BatchTable, Stop
from tidelog.storage.fs import File, FileSystem
from tidelog.storage.segment.file_names import FileKind, FileState, segment_file
from tidelog.storage.segment.hints import OffsetHints, TimeHints, read_offset_hints, read_time_hints

CHUNK_BYTES = 8 * 1024 * 1024


class Chunk(NamedTuple):
    """``buffer[0]`` is the first byte of a batch; ``table.position`` counts from the start of the file."""

    buffer: memoryview
    table: BatchTable
    base_position: int
    """Where ``buffer[0]`` lies in the file."""


class SegmentReader:
    """An open ``.log`` and, on demand, the hints of its indexes."""

    __slots__ = ("_directory", "_file", "_fs", "_offset_hints", "_state", "_time_hints", "base_offset")

    def __init__(self, fs: FileSystem, directory: Path, base_offset: int, *, state: FileState = FileState.LIVE) -> None:
        """Open; FileMissingError where there is no such segment (any more)."""
        self.base_offset = base_offset
        self._fs = fs
        self._directory = directory
        self._state = state
        self._file = fs.open(segment_file(directory, base_offset, FileKind.LOG, state))
        self._offset_hints: OffsetHints | None = None
        self._time_hints: TimeHints | None = None

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size(self) -> int:
        """Bytes now; a running broker appends to its active segment."""
        return self._file.size

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """Chunks of ``[start_position, end_position)``, in order; the end defaults to the size at the first step.

        ``start_position`` must be a batch boundary. The last chunk's ``table.stop`` says how the range ended: END, or
        PARTIAL (it cuts a batch), or what is wrong with the bytes at ``table.end_position``; that last chunk may have
        no rows. Batches whose CRC fails are rows with ``crc_ok`` False; nothing here raises for bad bytes.
        With ``first_chunk_bytes`` the chunks begin that small and double: for a caller who may soon have enough.
        """
        return file_chunks(
            self._file,
            start_position,
            end_position,
            verify_crc=verify_crc,
            chunk_bytes=chunk_bytes,
            first_chunk_bytes=first_chunk_bytes,
        )

    def table(self, start_position: int = 0, end_position: int | None = None, *, verify_crc: bool = True) -> BatchTable:
        """The batch table of a whole range; ``stop`` and ``end_position`` as of the last chunk."""
        tables = [chunk.table for chunk in self.chunks(start_position, end_position, verify_crc=verify_crc)]
        return BatchTable.concat(tables) if tables else kernel.scan_batches(b"", base_position=start_position)

    def read(self, position: int, length: int) -> memoryview:
        """``length`` bytes from ``position`` on, fewer at the end of the file."""
        return _read(self._file, position, length)

    @property
    def offset_hints(self) -> OffsetHints:
        """Believable entries of the ``.index``, read once."""
        if self._offset_hints is None:
            path = segment_file(self._directory, self.base_offset, FileKind.INDEX, self._state)
            self._offset_hints = read_offset_hints(self._fs, path, self.base_offset, self.size)
        return self._offset_hints

    @property
    def time_hints(self) -> TimeHints:
        """Believable entries of the ``.timeindex``, read once."""
        if self._time_hints is None:
            path = segment_file(self._directory, self.base_offset, FileKind.TIME_INDEX, self._state)
            self._time_hints = read_time_hints(self._fs, path, self.base_offset)
        return self._time_hints

    def position_of(self, offset: int) -> int:
        """A batch boundary at or before the batch that holds ``offset``: by the index where it is right, else 0.

        The index is believed only if a sound batch lies at the position it names and begins at or before ``offset``:
        then everything before that position is below ``offset``, whatever else the index says.
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
    """Chunks of any open file of batches, whatever its name; see ``SegmentReader.chunks``."""
    position = start_position
    size = file.size
    end = size if end_position is None else min(end_position, size)
    usual = chunk_bytes if first_chunk_bytes is None else min(first_chunk_bytes, chunk_bytes)
    wanted = usual
    while position < end:
        asked = min(wanted, end - position)
        buffer = _read(file, position, asked)
        if len(buffer) < asked:
            end = position + len(buffer)  # its owner truncated the file
        table = kernel.scan_batches(buffer, base_position=position, verify_crc=verify_crc)
        last = table.stop not in (Stop.END, Stop.PARTIAL) or position + len(buffer) >= end
        if not len(table) and not last:
            # A batch that reaches past the end is partial, however much is read of it.
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
    # Not bytearray, nor any fresh memory where it can be helped: zeros and page faults cost as much as the scan.
    buffer = kernel.take_buffer(length)
    return buffer[: file.pread_into(buffer, position)]
