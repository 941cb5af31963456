"""The check of one partition: its segments, then the partition's other files.

After an unclean shutdown, files that loading rebuilds are not compared with the log. Indexes of unflushed segments may
be preallocated, lack entries or be missing, and a snapshot may be empty.

Memory holds the batch table of one segment at a time, and the transactional rows of all. The module only reads. Thread
rule: one thread per partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.inspect.verify.index_check import check_offset_index, check_time_index, check_transaction_index
from tidelog.inspect.verify.log_check import LogCheck, check_log
from tidelog.inspect.verify.logged_aborts import logged_aborts
from tidelog.inspect.verify.state_check import check_epochs
from tidelog.kernel import BatchTable, Stop, scan_batches
from tidelog.model import CancelledError, FileMissingError, TidelogError
from tidelog.runtime.progress import Advance
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, QUORUM_STATE_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.log.load.listing import SegmentFiles, list_partition
from tidelog.storage.log.load.load_plan import first_unflushed_base
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.transaction_scan import TransactionRows
from tidelog.storage.log.view.view_state import stop_reason
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.producer.snapshot import parse_snapshot
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.segment_reader import SegmentReader

CHECKPOINT_SUFFIX = ".checkpoint"
_NEVER = 2**63
"""An offset above every offset of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownElsewhere:
    """A partition's facts from other files of the log directory."""

    topic_id: str | None = None
    """The topic id in the cluster metadata. None if there is none here."""
    may_have_gaps: bool = True
    """False if the log was never compacted, so that every offset must be present."""


@dataclass(slots=True)
class _Walk:
    """The state accumulated over the segments so far."""

    may_have_gaps: bool
    log_start: int
    findings: list[Finding] = field(default_factory=list)
    transactions: list[TransactionRows] = field(default_factory=list)
    bounds: list[tuple[int, int]] = field(default_factory=list)
    exact: bool = True
    next_offset: int | None = None
    first_offset: int = 0
    last_epoch: int = -1


def check_partition(
    fs: FileSystem, view: LogView, known: KnownElsewhere, advance: Advance, *, ahead: bool = False
) -> list[Finding]:
    """Return the findings of a partition directory, grouped by file. Raise only if the directory cannot be listed. The
    view must be fresh. It receives the valid segments, so that it need not walk them again. ``ahead`` works as in
    ``check_log``."""
    directory = view.directory
    listing = list_partition(fs, directory)
    is_clean = view.directory_state.condition is DirectoryCondition.CLEAN
    unflushed = _first_untrimmed(view, listing.base_offsets)
    walk = _Walk(may_have_gaps=known.may_have_gaps, log_start=_checkpointed_start(view))
    epochs = _read_epochs(fs, directory, walk)
    for number, segment in enumerate(listing.segments):
        is_last = number == len(listing.segments) - 1
        try:
            with SegmentReader(fs, directory, segment.base_offset) as reader:
                check = check_log(reader, advance, is_active=is_last and not is_clean, ahead=ahead)
            if check.sound is not None:
                view.accept_validated(segment.base_offset, check.sound)
            is_unflushed = segment.base_offset >= unflushed
            _check_segment_files(fs, directory, segment, check, walk, epochs, is_unflushed=is_unflushed)
        except CancelledError:
            raise
        except FileMissingError as error:
            walk.findings.append(Finding.of(error, directory, Severity.NOTE))  # a broker removed it meanwhile
        except TidelogError as error:
            walk.findings.append(Finding.of(error, directory))
    walk.findings += _check_transactions(fs, directory, listing.segments, walk, unflushed)
    walk.findings += _check_epoch_lines(directory, epochs, walk)
    for offset in listing.snapshots:
        path = segment_file(directory, offset, FileKind.SNAPSHOT)
        walk.findings += _check_snapshot(fs, path, offset, is_unflushed=offset >= unflushed)
    walk.findings += _check_metadata(fs, directory, known.topic_id)
    for name in listing.others:
        if name.endswith(CHECKPOINT_SUFFIX):
            walk.findings += check_batches_file(fs, directory / name)
        elif name == QUORUM_STATE_FILE:
            walk.findings += _check_quorum_state(fs, directory / name)
    leftovers = [str(file) for file in (*listing.orphans, *listing.invalid_swaps, *listing.cleaned)]
    for name in (*leftovers, *listing.temporary):
        walk.findings.append(
            Finding(path=directory / name, message="left over; a broker removes it", severity=Severity.NOTE)
        )
    return walk.findings


def _first_untrimmed(view: LogView, base_offsets: Sequence[int]) -> int:
    """Return the base offset of the first segment whose indexes may still be preallocated, or lack entries. In Kafka
    4.4 a clean shutdown trims the indexes of every log except the metadata log, which the quorum closes itself."""
    if view.directory_state.condition is not DirectoryCondition.CLEAN:
        return _first_unflushed(view, base_offsets)
    return base_offsets[-1] if view.directory.name == METADATA_DIRECTORY and base_offsets else _NEVER


def _check_segment_files(
    fs: FileSystem,
    directory: Path,
    segment: SegmentFiles,
    check: LogCheck,
    walk: _Walk,
    epochs: list[EpochEntry] | None,
    *,
    is_unflushed: bool,
) -> None:
    """Check the files that belong to a segment's ``.log``. ``check`` is the result for the ``.log`` itself."""
    table = check.table.take(check.table.crc_ok & check.table.header_ok)
    walk.findings += check.findings
    walk.transactions.append(check.transactions)
    walk.findings += _check_seam(segment.path(directory, FileKind.LOG), segment.base_offset, table, walk)
    for kind, check_index in ((FileKind.INDEX, check_offset_index), (FileKind.TIME_INDEX, check_time_index)):
        path = segment.path(directory, kind)
        if kind in segment.kinds:
            data = read_whole(fs, path)
            # All rows count: a damaged batch still lies where the indexes point, and has its own finding.
            walk.findings += check_index(data, path, segment.base_offset, check.table, is_unflushed=is_unflushed)
        else:
            severity = Severity.NOTE if is_unflushed else Severity.WARNING
            message = "missing; a broker rebuilds it from the log"
            walk.findings.append(Finding(path=path, message=message, severity=severity))
    if epochs:
        path = directory / LEADER_EPOCH_CHECKPOINT
        walk.findings += check_epochs(epochs, path, table, log_start=walk.log_start)


def _check_seam(path: Path, base_offset: int, table: BatchTable, walk: _Walk) -> Iterator[Finding]:
    """Check that offsets and epochs continue from one segment to the next. Also add missing offsets to ``walk``."""
    if walk.next_offset is not None and base_offset < walk.next_offset:
        yield Finding(
            path=path,
            message=f"the segment begins at {base_offset}, but the one before it ends at {walk.next_offset - 1}",
            offset=base_offset,
        )
    end = max(base_offset, int(table.last_offset[-1]) + 1) if len(table) else base_offset
    if walk.next_offset is None:
        walk.first_offset = base_offset
    walk.bounds.append((base_offset, end))
    if len(table):
        legacy_sets = bool(np.any((table.magic < 2) & (table.codec != 0)))
        gap = (
            bool(np.any(table.base_offset[1:] != table.last_offset[:-1] + 1))
            or int(table.base_offset[0]) != base_offset
        )
        if not walk.may_have_gaps:
            yield from _missing_offsets(path, base_offset, table, walk.next_offset)
        walk.exact = walk.exact and not gap and not legacy_sets and walk.next_offset in (None, base_offset)
        first_epoch = int(table.leader_epoch[0])
        if first_epoch < walk.last_epoch:
            yield Finding(
                path=path,
                message=f"leader epoch {first_epoch} follows {walk.last_epoch} of the segment before",
                offset=int(table.base_offset[0]),
            )
        walk.last_epoch = max(walk.last_epoch, int(table.leader_epoch.max()))
    walk.next_offset = end


def _missing_offsets(path: Path, base_offset: int, table: BatchTable, next_offset: int | None) -> Iterator[Finding]:
    """Yield a warning for each range of missing offsets in a log that was never compacted."""
    sets = (table.magic < 2) & (table.codec != 0)
    first = np.where(sets, table.last_offset, table.base_offset)
    expected = np.concatenate([[base_offset if next_offset is None else next_offset], table.last_offset[:-1] + 1])
    for index in np.flatnonzero((first > expected) & ~sets).tolist():
        row = table.row(index)
        yield Finding(
            path=path,
            message=f"offsets {expected[index]} to {row.base_offset - 1} are missing, but the log was never cleaned",
            severity=Severity.WARNING,
            position=row.position,
            offset=row.base_offset,
        )


def _check_transactions(
    fs: FileSystem, directory: Path, segments: tuple[SegmentFiles, ...], walk: _Walk, unflushed: int
) -> Iterator[Finding]:
    if len(walk.bounds) != len(segments):
        return  # a segment could not be read, so the transactions are not certain
    rows = TransactionRows.concat(walk.transactions)
    shown = logged_aborts(rows, walk.bounds, first_known=walk.first_offset, exact=walk.exact)
    for segment, aborts in zip(segments, shown, strict=True):
        path = segment.path(directory, FileKind.TXN_INDEX)
        if FileKind.TXN_INDEX in segment.kinds or aborts.transactions:
            data = read_whole(fs, path) if FileKind.TXN_INDEX in segment.kinds else b""
            is_unflushed = segment.base_offset >= unflushed
            yield from check_transaction_index(data, path, aborts, is_unflushed=is_unflushed)


def _read_epochs(fs: FileSystem, directory: Path, walk: _Walk) -> list[EpochEntry] | None:
    """Return the leader epochs, or None if the file is missing or unreadable."""
    path = directory / LEADER_EPOCH_CHECKPOINT
    if not fs.exists(path):
        return None
    try:
        return LeaderEpochCheckpoint.parse(read_whole(fs, path), path=path)
    except TidelogError as error:
        walk.findings.append(Finding.of(error, path))
        return None


def _check_epoch_lines(directory: Path, epochs: list[EpochEntry] | None, walk: _Walk) -> Iterator[Finding]:
    path = directory / LEADER_EPOCH_CHECKPOINT
    for before, entry in zip(epochs or (), (epochs or ())[1:], strict=False):
        if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
            message = f"epoch {entry.epoch} at {entry.start_offset} does not ascend from {before}"
            yield Finding(path=path, message=message, offset=entry.start_offset)
    for entry in epochs or ():
        if walk.next_offset is not None and entry.start_offset > walk.next_offset:
            message = f"epoch {entry.epoch} begins above the log's end {walk.next_offset}; a broker drops it"
            yield Finding(path=path, message=message, offset=entry.start_offset)
    if epochs is not None and not epochs and walk.last_epoch >= 0:
        yield Finding(path=path, message=f"no epochs, but the batches have them, up to {walk.last_epoch}")


def _check_snapshot(fs: FileSystem, path: Path, offset: int, *, is_unflushed: bool) -> Iterator[Finding]:
    try:
        data = read_whole(fs, path)
        if is_unflushed and not data:
            yield Finding(path=path, message="empty; a broker removes it", severity=Severity.NOTE)
            return
        entries = parse_snapshot(data, path=path)
    except TidelogError as error:
        yield Finding.of(error, path)
        return
    for entry in entries:
        first = entry.transaction_first_offset
        if entry.last_data_offset >= offset or (first is not None and first >= offset):
            yield Finding(
                path=path,
                message=f"producer {entry.producer_id} has offsets at or above {offset}, where the snapshot ends",
                offset=entry.last_data_offset,
            )


def _check_metadata(fs: FileSystem, directory: Path, topic_id: str | None) -> Iterator[Finding]:
    path = directory / PARTITION_METADATA_FILE
    try:
        metadata = PartitionMetadata.read(fs, path)
    except TidelogError as error:
        yield Finding.of(error, path)
        return
    if metadata is not None and topic_id is not None and metadata.topic_id_text != topic_id:
        yield Finding(
            path=path, message=f"the topic id is {metadata.topic_id_text}, the cluster metadata says {topic_id}"
        )


def check_batches_file(fs: FileSystem, path: Path) -> Iterator[Finding]:
    """Check a metadata snapshot (``.checkpoint``). Its batches are like a log's, but its name gives no base offset."""
    table = scan_batches(read_whole(fs, path))
    for row in table.rows():
        if not row.crc_ok or not row.header_ok:
            message = (
                f"the CRC of a batch of {row.size} bytes does not match its bytes, or its header contradicts itself"
            )
            yield Finding(path=path, message=message, position=row.position, offset=row.base_offset)
    if table.stop is not Stop.END:
        yield Finding(path=path, message=stop_reason(table.stop), position=table.end_position)
    steps = zip(table.rows(), table.take(slice(1, None)).rows(), strict=False)
    for before, row in steps:
        if row.base_offset != before.last_offset + 1:
            message = f"a batch begins at offset {row.base_offset}, the one before it ends at {before.last_offset}"
            yield Finding(path=path, message=message, position=row.position, offset=row.base_offset)


def _check_quorum_state(fs: FileSystem, path: Path) -> Iterator[Finding]:
    try:
        content = json.loads(read_whole(fs, path))
    except (ValueError, RecursionError) as error:
        yield Finding(path=path, message=f"not JSON: {error}")
        return
    if not isinstance(content, dict) or not {"leaderId", "leaderEpoch", "data_version"} <= content.keys():
        yield Finding(path=path, message="leaderId, leaderEpoch or data_version is missing")


def _first_unflushed(view: LogView, base_offsets: Sequence[int]) -> int:
    """Return the base offset of the segment that holds the recovery point."""
    partition = view.topic_partition
    point = 0 if partition is None else view.directory_state.recovery_points.get(partition, 0)
    first = first_unflushed_base(base_offsets, point)
    return 0 if first is None else first


def _checkpointed_start(view: LogView) -> int:
    partition = view.topic_partition
    return 0 if partition is None else view.directory_state.log_start_offsets.get(partition, 0)
