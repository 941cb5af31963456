"""The producers that logs know: of one log up to its end, and of all logs by their newest snapshots.

A producer stays in a log's state until ``producer.id.expiration.ms`` has passed since its last batch, and as long as it
has an open transaction. A client that often takes a new producer id therefore fills the memory of the brokers and the
snapshots. The survey finds the logs with many producers by their newest snapshots alone, without reading a log. A
snapshot is written when a segment is rolled and at a clean shutdown, so later producers are missing there.

The module only reads. Memory grows with the number of producers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import CancelledError, DirectoryError, FileMissingError, TidelogError, TopicPartition
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_producers import newest_snapshot, read_producers
from tidelog.storage.producer.entry import ProducerEntry
from tidelog.storage.producer.snapshot import parse_snapshot
from tidelog.storage.segment.file_names import (
    DirectoryPurpose,
    FileKind,
    FileState,
    PartitionDirectoryName,
    SegmentFileName,
    segment_file,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProducers:
    """The producers of a log at ``offset``: the log end, or after an error the offset of the newest snapshot."""

    entries: tuple[ProducerEntry, ...]
    offset: int
    snapshot_offset: int | None
    """The offset of the newest readable snapshot, or None if the log has none."""
    error: TidelogError | None = None
    """The reason if the batches after the snapshot could not be read."""


def log_producers(view: LogView, advance: Advance = lambda _bytes: None) -> LogProducers:
    """Return the producers of a log, sorted by id, from the newest snapshot and the batches after it."""
    snapshot = newest_snapshot(view)
    at = None if snapshot is None else snapshot.offset
    try:
        found = read_producers(view, advance=advance)
    except CancelledError:
        raise
    except TidelogError as error:
        entries = () if snapshot is None else snapshot.entries
        offset = view.log_start if at is None else at
        return LogProducers(entries=_sorted(entries), offset=offset, snapshot_offset=at, error=error)
    return LogProducers(entries=_sorted(found.values()), offset=view.log_end, snapshot_offset=at)


def _sorted(entries: Iterable[ProducerEntry]) -> tuple[ProducerEntry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.producer_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSummary:
    """The producer snapshots of a log. The counts are those of the newest readable one."""

    name: str
    partition: TopicPartition
    snapshots: int
    snapshot_bytes: int
    """The bytes of all snapshots."""
    offset: int | None = None
    """The offset of the newest readable snapshot."""
    producers: int = 0
    open: int = 0
    """The producers with an open transaction."""
    expired: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    """The last timestamps of the longest silent and of the newest producer."""
    error: TidelogError | None = None
    """The error of a newer snapshot that cannot be read."""


OnEntries = Callable[[str, Sequence[ProducerEntry]], None]
"""Takes the name of a log's directory and the entries of its newest snapshot."""


def survey_snapshots(
    fs: FileSystem,
    path: Path,
    names: Iterable[str],
    *,
    expired_before_ms: int,
    on_entries: OnEntries = lambda _name, _entries: None,
    advance: Advance = lambda _logs: None,
) -> list[SnapshotSummary]:
    """Return a summary of each live log with these directory names. Removed logs are skipped. ``advance`` receives the
    number of finished logs."""
    found = []
    for name in names:
        try:
            parsed = PartitionDirectoryName.parse(name)
            if parsed.purpose is DirectoryPurpose.LIVE:
                found.append(_summary(fs, path / name, parsed.topic_partition, expired_before_ms, on_entries))
        except (DirectoryError, FileMissingError):
            pass  # another kind of directory, or a broker removed it meanwhile
        advance(1)
    return found


def _summary(
    fs: FileSystem, directory: Path, partition: TopicPartition, expired_before_ms: int, on_entries: OnEntries
) -> SnapshotSummary:
    sizes = {
        file.offset: size
        for text, size in fs.list_sizes(directory).items()
        if (file := SegmentFileName.parse(text)) is not None
        and file.kind is FileKind.SNAPSHOT
        and file.state is FileState.LIVE
    }
    error: TidelogError | None = None
    entries: Sequence[ProducerEntry] = ()
    at: int | None = None
    for offset in sorted(sizes, reverse=True):
        newest = segment_file(directory, offset, FileKind.SNAPSHOT)
        try:
            entries, at = parse_snapshot(read_whole(fs, newest), path=newest), offset
            break
        except TidelogError as failed:
            error = error or failed
    on_entries(directory.name, entries)
    times = [entry.last_timestamp for entry in entries if entry.last_timestamp >= 0]
    return SnapshotSummary(
        name=directory.name,
        partition=partition,
        snapshots=len(sizes),
        snapshot_bytes=sum(sizes.values()),
        offset=at,
        producers=len(entries),
        open=sum(entry.transaction_first_offset is not None for entry in entries),
        expired=sum(
            entry.transaction_first_offset is None and entry.last_timestamp <= expired_before_ms for entry in entries
        ),
        oldest_ms=min(times, default=None),
        newest_ms=max(times, default=None),
        error=error,
    )


@dataclass(slots=True, kw_only=True)
class ProducerTotal:
    """A producer in all logs."""

    producer_id: int
    logs: int = 0
    open: int = 0
    epoch: int = -1
    """The highest epoch."""
    last_ms: int = -1
    """The newest timestamp."""

    def add(self, entry: ProducerEntry) -> None:
        self.logs += 1
        self.open += entry.transaction_first_offset is not None
        self.epoch = max(self.epoch, entry.producer_epoch)
        self.last_ms = max(self.last_ms, entry.last_timestamp)
