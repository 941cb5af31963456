"""Checks of snapshots: the records of a partition as a list, the bytes of a directory, and a snapshot in one call."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.kernel import ColumnDecoder
from tidelog.model import TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.record.decode import decode_columns
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL, FileSystem, LocalFileSystem
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.log.view.row_stream import ReadRange
from tidelog.storage.manager.snapshot.open_transactions import OpenTransactionPolicy
from tidelog.storage.manager.snapshot.partition_end import Moment
from tidelog.storage.manager.snapshot.snapshot import SnapshotResult, take_snapshot
from tidelog.storage.manager.snapshot.snapshot_plan import SnapshotOptions, SnapshotPaths

NOW_MS = 2_000_000_000_000


class UnsyncedFile(LocalFile):
    def sync(self) -> None:
        pass


class UnsyncedDisk(LocalFileSystem):
    """The local disk without its slow syncs, for tests that never take the power."""

    __slots__ = ()

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> LocalFile:
        with super().open(path, write=write, create=create) as opened:
            return UnsyncedFile(path, os.dup(opened.fileno()))

    def sync_dir(self, path: Path) -> None:
        pass


UNSYNCED = UnsyncedDisk()


class Seen(NamedTuple):
    """A record as a reader sees it. ``is_control`` distinguishes markers."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]
    producer_id: int
    is_control: bool


def records(path: Path, partition: TopicPartition, fs: FileSystem = LOCAL) -> list[Seen]:
    """Return all records of a partition, markers too, in offset order."""
    view = LogView(fs, path / partition.directory_name)
    return list(_seen(view))


def _seen(view: LogView) -> Iterator[Seen]:
    for rows in view.batches(ReadRange(start=view.log_start, end=view.log_end, control=True)):
        for number in range(len(rows.table)):
            one = rows._replace(table=rows.table.take(slice(number, number + 1)))
            row = one.table.row(0)
            is_control = bool(one.table.is_control[0])
            decoder = ColumnDecoder(start_offset=view.log_start, end_offset=view.log_end)
            for columns in decode_columns(one.buffer, one.table, decoder, base_position=one.base_position):
                for record in iter_records(columns):
                    yield Seen(
                        record.offset,
                        record.timestamp,
                        int(record.timestamp_type),
                        record.key,
                        record.value,
                        tuple(record.headers),
                        row.producer_id,
                        is_control,
                    )


def until(found: Sequence[Seen], at_ms: int) -> list[Seen]:
    """Return the records before the first one with a later timestamp: the rule, as a list."""
    return list(takewhile(lambda record: record.timestamp <= at_ms, found))


def data_partitions(path: Path, fs: FileSystem = LOCAL) -> list[TopicPartition]:
    return [one for one in live_partitions(fs, path) if one.topic != CLUSTER_METADATA_TOPIC]


def digests(path: Path) -> Mapping[str, tuple[str, int]]:
    """Return the hash and the modification time of every file below a directory, and all directories."""
    found = {}
    for one in sorted([path, *path.rglob("*")]):
        content = hashlib.sha256(one.read_bytes()).hexdigest() if one.is_file() else "directory"
        found[str(one.relative_to(path))] = (content, one.stat().st_mtime_ns)
    return found


def snapshot(
    source: Path,
    target: Path,
    *,
    at_ms: int | None = None,
    at_offsets: Mapping[TopicPartition, int] | None = None,
    fs: FileSystem | None = None,
    open_transactions: str = "abort",
    **options: Any,
) -> SnapshotResult:
    moment = Moment(at_ms=at_ms, at_offsets=at_offsets or {})
    chosen = SnapshotOptions(
        moment=moment, **{"now_ms": NOW_MS, "threads": 1, "policy": OpenTransactionPolicy(open_transactions), **options}
    )
    return take_snapshot(fs or UNSYNCED, [SnapshotPaths(source=source, target=target)], chosen)
