"""The next start of a log directory, directory by directory, from names, sizes and checkpoints alone.

=================  =========================  ========================================================================
directory          the last shutdown          action
=================  =========================  ========================================================================
live or -future    clean                      LOAD; RECOVER segments with a missing index, or one of the wrong size
live or -future    unclean, or none yet       RECOVER the segments from the recovery point's on, and those segments
the metadata log   any                        RECOVER: it has no checkpoints
-delete            any                        REMOVE: the broker removes the files soon after its start
-stray             any                        KEEP: no broker opens it
any other name     any                        REFUSE: a broker does not start on this log directory
=================  =========================  ========================================================================

Leftover files of a crash are counted too: the start removes or renames them. The bytes to recover are the sizes of
``.log`` files. No index is read, and segments to split do not count, so that thousands of logs take a second.
``storage/manager/recovery/recover_plan.py`` reads more and is exact. Reads only.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.model import DirectoryError, FileMissingError, TidelogError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.leftover_files import plan_cleanup
from tidelog.storage.log.load.listing import PartitionListing, sort_names
from tidelog.storage.log.load.load_plan import decide_recovery, indexes_of_wrong_size
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.storage.log.view.partitions import REMOTE_INDEX_CACHE
from tidelog.storage.segment.file_names import DirectoryPurpose, FileKind, PartitionDirectoryName


class StartAction(enum.StrEnum):
    """The actions of the module's table."""

    LOAD = "load"
    RECOVER = "recover"
    REMOVE = "remove"
    KEEP = "keep"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOutlook:
    """The outlook of a directory. Offsets are those of the checkpoints, None without an entry. Sizes are in bytes."""

    name: str
    action: StartAction
    partition: TopicPartition | None = None
    purpose: DirectoryPurpose | None = None
    recovery_point: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    segments: int = 0
    log_bytes: int = 0
    bytes: int = 0
    recover_segments: int = 0
    recover_bytes: int = 0
    leftovers: int = 0
    """The number of files that the start removes or renames."""
    leftover_bytes: int = 0
    error: TidelogError | None = None


def survey_start(
    fs: FileSystem, state: DirectoryState, names: Iterable[str], advance: Advance = lambda _count: None
) -> list[StartOutlook]:
    """Return the outlook of the named directories of ``state.path``. Directories removed meanwhile are left out.

    ``advance`` receives the number of finished directories.
    """
    found = []
    for name in names:
        try:
            found.append(_outlook(fs, state, name))
        except FileMissingError:
            pass  # a broker removed it since the listing
        except TidelogError as error:
            found.append(StartOutlook(name=name, action=StartAction.RECOVER, error=error))
        advance(1)
    return found


def _outlook(fs: FileSystem, state: DirectoryState, name: str) -> StartOutlook:
    sizes = fs.list_sizes(state.path / name)
    total = sum(size for size in sizes.values() if size > 0)
    try:
        parsed = PartitionDirectoryName.parse(name)
    except DirectoryError as error:
        is_cache = name == REMOTE_INDEX_CACHE
        action = StartAction.KEEP if is_cache else StartAction.REFUSE
        return StartOutlook(name=name, action=action, bytes=total, error=None if is_cache else error)
    partition, listing = parsed.topic_partition, sort_names(sizes, sizes)
    known = StartOutlook(
        name=name,
        action=StartAction.REMOVE if parsed.purpose is DirectoryPurpose.DELETE else StartAction.KEEP,
        partition=partition,
        purpose=parsed.purpose,
        segments=len(listing.segments),
        log_bytes=sum(max(0, segment.sizes[FileKind.LOG]) for segment in listing.segments),
        bytes=total,
    )
    if parsed.purpose in (DirectoryPurpose.DELETE, DirectoryPurpose.STRAY):
        return known
    return _loaded(fs, state, known, partition, listing, sizes)


def _loaded(
    fs: FileSystem,
    state: DirectoryState,
    known: StartOutlook,
    partition: TopicPartition,
    listing: PartitionListing,
    sizes: dict[str, int],
) -> StartOutlook:
    """Return the outlook of a log that the start loads."""
    is_metadata = partition.topic == CLUSTER_METADATA_TOPIC
    recovery_point = state.recovery_points.get(partition)
    plan = decide_recovery(
        listing,
        clean_shutdown=state.condition is DirectoryCondition.CLEAN and not is_metadata,
        recovery_point=0 if is_metadata else recovery_point or 0,
        corrupt=indexes_of_wrong_size(fs, state.path / known.name, listing.segments),
    )
    logs = {segment.base_offset: max(0, segment.sizes[FileKind.LOG]) for segment in listing.segments}
    cleanup = plan_cleanup(listing, range(0))
    moved = [*cleanup.removals, *(source for source, _ in cleanup.renames)]
    return StartOutlook(
        name=known.name,
        action=StartAction.RECOVER if plan.recover else StartAction.LOAD,
        partition=partition,
        purpose=known.purpose,
        recovery_point=recovery_point,
        log_start=state.log_start_offsets.get(partition),
        high_watermark=state.high_watermarks.get(partition),
        segments=known.segments,
        log_bytes=known.log_bytes,
        bytes=known.bytes,
        recover_segments=len(plan.recover),
        recover_bytes=sum(logs[segment.base_offset] for segment in plan.recover),
        leftovers=len(moved),
        leftover_bytes=sum(max(0, sizes.get(name, 0)) for name in moved),
    )
