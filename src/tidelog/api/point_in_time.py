"""``snapshot``: copies of log directories as of a time, as ``tidelog snapshot --apply`` makes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.fs import LOCAL, path_of, require_disk
from tidelog.storage.manager.snapshot.open_transactions import OpenTransactionPolicy
from tidelog.storage.manager.snapshot.partition_end import Moment
from tidelog.storage.manager.snapshot.snapshot import SnapshotResult, take_snapshot
from tidelog.storage.manager.snapshot.snapshot_plan import SnapshotOptions, SnapshotPaths

PathLike = str | os.PathLike[str]


def snapshot(
    path_or_paths: PathLike | Iterable[PathLike],
    destination: PathLike | Iterable[PathLike],
    *,
    at: int | datetime | None = None,
    at_offsets: Mapping[TopicPartition, int] | None = None,
    open_transactions: str = "abort",
    links: bool = True,
    on_progress: ProgressListener | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> SnapshotResult:
    """Copy log directories as of a time, mostly by hard links. Each destination exists only once it is complete.

    ``at`` is in ms since 1970, or a datetime (UTC without a zone). A partition ends at its first record with a later
    timestamp, or at its offset in ``at_offsets``. ``open_transactions`` is ``abort`` or ``keep``. With ``links``
    False, every file is copied. For several log directories of a broker, give as many destinations. The sources are
    only read.

    Raise DirectoryError if a destination exists or a source is no log directory, CorruptRecordError for damage before
    an end, and ValueError without a moment or for different numbers of paths.
    """
    if at is None and at_offsets is None:
        raise ValueError("a snapshot needs a moment: at, at_offsets, or both")
    sources, targets = _paths(path_or_paths), _paths(destination)
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} log directories need as many destinations, not {len(targets)}")
    require_disk([*sources, *targets])
    return take_snapshot(
        LOCAL,
        [SnapshotPaths(source=source, target=target) for source, target in zip(sources, targets, strict=True)],
        SnapshotOptions(
            moment=Moment(at_ms=_milliseconds(at), at_offsets=at_offsets or {}),
            now_ms=clock.now_ms(),
            policy=OpenTransactionPolicy(open_transactions),
            links=links,
        ),
        on_progress=on_progress,
    )


def _paths(given: PathLike | Iterable[PathLike]) -> list[Path]:
    return [path_of(given)] if isinstance(given, str | os.PathLike) else [path_of(path) for path in given]


def _milliseconds(at: int | datetime | None) -> int | None:
    if not isinstance(at, datetime):
        return at
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
