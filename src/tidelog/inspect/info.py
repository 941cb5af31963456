"""The ``info`` report: a log directory's contents, from names, checkpoints, indexes and a few batches.

The report is cheap. It reads from a ``.log`` only the first batch of each segment, and the bytes needed to find the log
end. After an unclean shutdown those are all unflushed segments. The module only reads, several partitions in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import DirectoryError, StorageError, TidelogError, TopicPartition
from tidelog.record.attributes import CODECS, DELETE_HORIZON_FLAG, TIMESTAMP_TYPE_FLAG, codec_of
from tidelog.runtime.progress import Advance
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, CleanShutdownFile, MetaProperties
from tidelog.storage.checkpoint.partition_metadata import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch.leader_epoch_file import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.load.leftover_files import plan_cleanup
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.time_lookup import largest_timestamp
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.storage.segment.segment_reader import SegmentReader

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """``log_bytes`` counts ``.log`` files and ``bytes`` all files. Offsets are those a reader finds. Timestamps are in
    ms, None without any. ``formats`` holds magic and codec of each segment's first batch, such as ``v2 gzip``.
    ``leftovers`` are files that the next start removes or renames. ``error`` is the reason for missing values."""

    partition: TopicPartition
    directory: Path
    topic_id: str | None = None
    segments: int = 0
    log_bytes: int = 0
    bytes: int = 0
    log_start: int | None = None
    high_watermark: int | None = None
    last_stable: int | None = None
    log_end: int | None = None
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    formats: tuple[str, ...] = ()
    leader_epoch: int | None = None
    leftovers: tuple[str, ...] = ()
    error: TidelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryInfo:
    """``passing`` are directories being added or removed (``-delete``, ``-future``, ``-stray``)."""

    path: Path
    state: DirectoryState
    meta: MetaProperties | None
    broker_epoch: int | None
    """The epoch of the run that ended with a clean shutdown."""
    passing: tuple[str, ...]
    warnings: tuple[str, ...]
    partitions: tuple[PartitionInfo, ...]

    @property
    def condition(self) -> DirectoryCondition:
        return self.state.condition


def describe_directory(
    fs: FileSystem, path: Path, *, only: Iterable[TopicPartition] | None = None, threads: int | None = None
) -> DirectoryInfo:
    """Describe a log directory, or the partitions of ``only`` in it. Raise DirectoryError if it cannot be listed."""
    fs = ReadOnlyFileSystem(fs)
    state = read_directory_state(fs, path)
    warnings = list(state.warnings)
    meta: MetaProperties | None = None
    try:
        meta = MetaProperties.read(fs, path / META_PROPERTIES_FILE)
    except StorageError as error:
        warnings.append(str(error))

    def describe(view: LogView, partition: TopicPartition, _tell: Advance) -> PartitionInfo:
        try:
            return describe_partition(view, partition)
        except TidelogError as error:
            return PartitionInfo(partition=partition, directory=view.directory, error=error)

    described = tuple(each_partition(fs, path, describe, only=only, state=state, threads=threads))
    return DirectoryInfo(
        path=path,
        state=state,
        meta=meta,
        broker_epoch=CleanShutdownFile(fs, path).read(),
        passing=tuple(_passing(fs, path)),
        warnings=tuple(warnings),
        partitions=described,
    )


def describe_partition(view: LogView, partition: TopicPartition) -> PartitionInfo:
    """Describe one partition. Raise the TidelogError that opening or walking the log raises."""
    fs, directory, state = view.fs, view.directory, view.state
    heads = SegmentHeads()
    times = []
    for segment in state.segments:
        with segment.open(fs, directory) as reader:
            if heads.add(reader):
                times.append(largest_timestamp(state, segment, reader))
    topic_id = PartitionMetadata.read(fs, directory / PARTITION_METADATA_FILE)
    epochs = LeaderEpochCheckpoint.read(fs, directory / LEADER_EPOCH_CHECKPOINT)
    leftovers = plan_cleanup(state.listing, range(0))
    return PartitionInfo(
        partition=partition,
        directory=directory,
        topic_id=None if topic_id is None else topic_id.topic_id_text,
        segments=len(state.segments),
        log_bytes=sum(segment.size for segment in state.segments),
        bytes=sum(fs.stat(directory / name).size for name in fs.list_names(directory)),
        log_start=view.log_start,
        high_watermark=view.end_offset(Until.HIGH_WATERMARK),
        last_stable=view.last_stable_offset(Until.LOG_END),
        log_end=view.log_end,
        first_timestamp=heads.first_timestamp,
        last_timestamp=max((time for time in times if time >= 0), default=None),
        formats=heads.formats,
        leader_epoch=epochs[-1].epoch if epochs else None,
        leftovers=(*leftovers.removals, *(source for source, _ in leftovers.renames)),
    )


class SegmentHeads:
    """The facts that the first batches of a log's segments have. The segments are added in the log's order."""

    def __init__(self) -> None:
        self.first_timestamp: int | None = None
        """The first timestamp of the first batch that has one, in ms."""
        self._formats: dict[str, None] = {}

    @property
    def formats(self) -> tuple[str, ...]:
        """Magic and codec of each first batch, such as ``v2 gzip``, each once."""
        return tuple(self._formats)

    def add(self, reader: SegmentReader) -> bool:
        """Read a segment's first batch. Return False if it has no complete batch."""
        head = _first_batch(reader)
        if head is None:
            return False
        self._formats.setdefault(head.format)
        if self.first_timestamp is None and head.timestamp >= 0:
            self.first_timestamp = head.timestamp
        return True


@dataclass(frozen=True, slots=True)
class _Head:
    format: str
    timestamp: int


def _first_batch(reader: SegmentReader) -> _Head | None:
    """Return format and first timestamp of the first complete batch, or None if there is none. A batch with a delete
    horizon or with log append time has no first timestamp, so its largest one is returned."""
    chunk = next(reader.chunks(0, verify_crc=False, chunk_bytes=_CHUNK_BYTES), None)
    if chunk is None or not len(chunk.table):
        return None
    row = chunk.table.row(0)
    codec = CODECS.get(codec_of(row.attributes), "unknown")
    says_base = not row.attributes & (DELETE_HORIZON_FLAG | TIMESTAMP_TYPE_FLAG)
    return _Head(f"v{row.magic} {codec}", row.base_timestamp if says_base else row.max_timestamp)


def _passing(fs: FileSystem, path: Path) -> Iterator[str]:
    for name in fs.list_names(path):
        try:
            purpose = PartitionDirectoryName.parse(name).purpose
        except DirectoryError:
            continue
        if purpose is not DirectoryPurpose.LIVE:
            yield name
