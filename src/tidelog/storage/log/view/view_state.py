"""The segments, log start and log end of a partition that a reader may trust at one moment; frozen.

The directory's condition decides how the end is found (see ``directory_state``):

- CLEAN, HELD: the last segment is walked from its last index entry; the log ends after the last complete batch.
- UNCLEAN: every segment from the recovery point's on is walked from its start, with CRCs. The log ends before the first
  byte that recovery would truncate, and later segments do not count. A segment that recovery would split because of its
  large offsets is read unchanged.

Valid ``.swap`` files count instead of the segments they replace, as after the next start. A listing taken while a
broker renames files can miss one. A held directory is therefore listed until two listings agree, and loading starts
over if a listed file has disappeared. Reading changes nothing.
Source: Kafka's ``LogLoader``, ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tidelog.kernel import BatchTable, Stop
from tidelog.model import FileMissingError, LogOffsetMetadata, StorageError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.leftover_files import replaced_offsets
from tidelog.storage.log.load.listing import PartitionListing, SegmentFiles, list_partition
from tidelog.storage.log.load.load_plan import TXN_INDEX_ALONE, corrupt_indexes
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.transaction_scan import TransactionRows, transaction_rows
from tidelog.storage.segment.file_names import FileKind, FileState
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

_ATTEMPTS = 20
_INT_MAX = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSegment:
    """A segment's files and the size of its ``.log`` in bytes."""

    files: SegmentFiles
    size: int
    cut_at: int | None = None
    """Position where recovery would truncate the file although it keeps later segments (see ``load_plan``)."""

    @property
    def base_offset(self) -> int:
        return self.files.base_offset

    def open(self, fs: FileSystem, directory: Path) -> SegmentReader:
        return SegmentReader(fs, directory, self.base_offset, state=self.files.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidTail:
    """The first bytes after the log end: their file, position, length, and the reason why they are invalid."""

    path: Path
    position: int
    length: int
    reason: str
    later_segments: int
    """Number of segments after this one, which recovery would delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredTail:
    """Further results of the walk over unflushed segments after an unclean shutdown."""

    start_offset: int
    """Base offset of the first walked segment."""
    transactions: TransactionRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedSegment:
    """A ``.log`` that the caller has just read to its end. Every batch is complete, with a valid CRC and offset."""

    size: int
    next_offset: int
    transactions: TransactionRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewState:
    condition: DirectoryCondition
    listing: PartitionListing
    segments: LogSegments[ViewSegment]
    log_start: int
    log_end: LogOffsetMetadata
    invalid_tail: InvalidTail | None = None
    recovered: RecoveredTail | None = None
    """Set only if ``condition`` is UNCLEAN."""

    def end_position(self, segment: ViewSegment) -> int | None:
        """Return the position where reading ends: the log end in the last segment, else None (the file's end)."""
        is_last = segment.base_offset == self.log_end.segment_base_offset
        return self.log_end.position_in_segment if is_last else segment.cut_at

    def was_recovered(self, segment: ViewSegment) -> bool:
        """Return True if its batches were walked, because its indexes may be behind them after an unclean shutdown."""
        return self.recovered is not None and segment.base_offset >= self.recovered.start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadParameters:
    directory: Path
    condition: DirectoryCondition
    recovery_point: int = 0
    log_start: int = 0
    """The checkpointed log start."""
    validated: Mapping[int, ValidatedSegment] = field(default_factory=dict)
    """Segments that need no walk, by base offset."""


def load_view_state(fs: FileSystem, parameters: LoadParameters) -> ViewState:
    """Load the state. Raise FileMissingError if the directory is gone, StorageError if its files keep changing."""
    for _ in range(_ATTEMPTS):
        listing = _list_stable(fs, parameters)
        try:
            return _load(fs, parameters, listing)
        except FileMissingError:
            continue  # a file was renamed, deleted or swapped between listing and opening
    raise StorageError(
        f"the directory's files changed {_ATTEMPTS} times while it was opened", path=parameters.directory
    )


def _list_stable(fs: FileSystem, parameters: LoadParameters) -> PartitionListing:
    listing = list_partition(fs, parameters.directory)
    if parameters.condition is not DirectoryCondition.HELD:
        return listing
    for _ in range(_ATTEMPTS):
        again = list_partition(fs, parameters.directory)
        if again == listing:
            break
        listing = again
    return listing


def _load(fs: FileSystem, parameters: LoadParameters, listing: PartitionListing) -> ViewState:
    directory = parameters.directory
    segments = LogSegments(
        tuple(
            ViewSegment(files=files, size=fs.stat(files.path(directory, FileKind.LOG)).size)
            for files in visible_segments(fs, directory, listing)
        )
    )
    log_start = max(parameters.log_start, segments.first.base_offset) if len(segments) else parameters.log_start
    invalid: InvalidTail | None = None
    recovered: RecoveredTail | None = None
    end = LogOffsetMetadata(log_start)
    if len(segments) and parameters.condition is DirectoryCondition.UNCLEAN:
        segments, end, invalid, recovered = _recover(fs, parameters, segments)
    elif len(segments):
        end, invalid = _walk_last(fs, directory, segments.last)
    if end.message_offset < log_start:
        # All records lie below the log start: a starting broker would delete them and continue at the log start.
        segments, end, recovered = LogSegments(), LogOffsetMetadata(log_start), None
    return ViewState(
        condition=parameters.condition,
        listing=listing,
        segments=segments,
        log_start=log_start,
        log_end=end,
        invalid_tail=invalid,
        recovered=recovered,
    )


def visible_segments(fs: FileSystem, directory: Path, listing: PartitionListing) -> tuple[SegmentFiles, ...]:
    """Return the segments as after interrupted swaps are completed: ``.swap`` files replace the range they cover."""
    if not listing.swaps:
        return listing.segments
    replaced = replaced_offsets(fs, directory, listing)
    swapped = {files.base_offset for files in listing.swaps}
    kept = [
        files for files in listing.segments if files.base_offset not in replaced and files.base_offset not in swapped
    ]
    return tuple(sorted([*kept, *listing.swaps], key=lambda files: files.base_offset))


def _walk_last(fs: FileSystem, directory: Path, segment: ViewSegment) -> tuple[LogOffsetMetadata, InvalidTail | None]:
    """Find the log end by batch headers after the last index entry. Reads check the CRCs."""
    with segment.open(fs, directory) as reader:
        hints = reader.offset_hints
        start = reader.position_of(int(hints.offsets[-1])) if len(hints) else 0
        walk = _walk(reader, start)
    return LogOffsetMetadata(walk.next_offset, segment.base_offset, walk.position), walk.invalid_tail(reader.path, 0)


def _recover(
    fs: FileSystem, parameters: LoadParameters, segments: LogSegments[ViewSegment]
) -> tuple[LogSegments[ViewSegment], LogOffsetMetadata, InvalidTail | None, RecoveredTail]:
    """Walk the unflushed segments with CRCs, up to the first bytes that recovery would truncate."""
    directory = parameters.directory
    unflushed = segments.between(parameters.recovery_point)
    rows: list[TransactionRows] = []
    kept = [segment for segment in segments if segment.base_offset < unflushed[0].base_offset]
    for segment in unflushed:
        above = segments.higher(segment.base_offset)
        walk = _recovery_walk(fs, parameters, segment, rows, _MAX_OFFSET if above is None else above.base_offset)
        whole = walk.position == walk.size
        kept.append(segment if whole else replace(segment, cut_at=walk.position))
        if not whole and not _index_lost(fs, directory, segment):
            break
    invalid = walk.invalid_tail(segment.files.path(directory, FileKind.LOG), len(segments) - len(kept))
    end = LogOffsetMetadata(walk.next_offset, kept[-1].base_offset, walk.position)
    recovered = RecoveredTail(start_offset=unflushed[0].base_offset, transactions=TransactionRows.concat(rows))
    return LogSegments(tuple(kept)), end, invalid, recovered


def _index_lost(fs: FileSystem, directory: Path, segment: ViewSegment) -> bool:
    """Return True if recovery would truncate the segment without ending the log there (see ``load_plan``)."""
    if FileKind.INDEX not in segment.files.kinds:
        return True
    return bool(corrupt_indexes(fs, directory, [segment.files], TXN_INDEX_ALONE))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """The end of a segment's walk, and the segment's size in bytes."""

    next_offset: int
    position: int
    size: int
    reason: str

    def invalid_tail(self, path: Path, later_segments: int) -> InvalidTail | None:
        if self.position == self.size:
            return None
        length = self.size - self.position
        return InvalidTail(
            path=path, position=self.position, length=length, reason=self.reason, later_segments=later_segments
        )


def _recovery_walk(
    fs: FileSystem, parameters: LoadParameters, segment: ViewSegment, rows: list[TransactionRows], next_base: int
) -> _Walk:
    """Walk a segment for recovery. Add batches of transactions to ``rows``; ``next_base`` is the next base offset."""
    known = parameters.validated.get(segment.base_offset)
    if known is None or known.size != segment.size or segment.files.state is not FileState.LIVE:
        with segment.open(fs, parameters.directory) as reader:
            return _walk(reader, 0, next_base, recovering=rows)
    rows.append(known.transactions)
    return _Walk(next_offset=known.next_offset, position=known.size, size=known.size, reason=stop_reason(Stop.END))


def _walk(
    reader: SegmentReader, start: int, next_base: int = _MAX_OFFSET, recovering: list[TransactionRows] | None = None
) -> _Walk:
    """Walk from a batch boundary as far as the batches are valid.

    With ``recovering``, check CRCs like recovery instead of headers, and add the batches of transactions to it.
    """
    size = reader.size
    last_allowed = max(reader.base_offset + _INT_MAX, next_base - 1)
    next_offset, position, reason = reader.base_offset, start, stop_reason(Stop.END)
    for table, chunk in _pieces(reader, start, size, verify_crc=recovering is not None):
        good = table.crc_ok if recovering is not None else table.header_ok
        bad = np.flatnonzero(~(good & (table.last_offset >= reader.base_offset) & (table.last_offset <= last_allowed)))
        kept = table.take(slice(0, int(bad[0]))) if len(bad) else table
        if len(kept):
            last = kept.row(-1)
            next_offset, position = last.last_offset + 1, last.position + last.size
            if recovering is not None and chunk is not None:
                recovering.append(transaction_rows(chunk.buffer, kept, chunk.base_position))
        if len(bad):
            fault = table.row(int(bad[0]))
            reason = "a batch's offset lies outside its segment" if fault.header_ok else "a batch's header is damaged"
            return _Walk(
                next_offset=next_offset,
                position=position,
                size=size,
                reason=reason if fault.crc_ok else "a batch's CRC does not match",
            )
        reason = stop_reason(table.stop)
    return _Walk(next_offset=next_offset, position=position, size=size, reason=reason)


def _pieces(
    reader: SegmentReader, start: int, size: int, *, verify_crc: bool
) -> Iterator[tuple[BatchTable, Chunk | None]]:
    """Yield the tables of a range. Only those with checked CRCs, and the last one, have their bytes."""
    if not verify_crc:
        for table in reader.headers(start, size):
            yield table, None
            start = table.end_position
    for chunk in reader.chunks(start, size, verify_crc=verify_crc):
        yield chunk.table, chunk


def stop_reason(stop: Stop) -> str:
    """Return a clause that explains why no batch can be read at a position."""
    return {
        Stop.END: "nothing follows",
        Stop.PARTIAL: "a batch is incomplete",
        Stop.BAD_SIZE: "a batch's length field is below the smallest batch",
        Stop.BAD_MAGIC: "a batch has an unknown format version (magic)",
    }[stop]
