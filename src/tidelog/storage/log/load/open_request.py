"""The opening of a log: its input, the load of its directory, and the state built from the result."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from tidelog.kernel import LogOffsets
from tidelog.model import FileMissingError, LogOffsetMetadata, StorageError
from tidelog.runtime import Clock, Scheduler
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.log.load.loader import LoadedLog, LoadRequest, load_log
from tidelog.storage.log.state.deleted_segments import DeletedSegments
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.log.state.log_tasks import LogTasks
from tidelog.storage.log.state.topic_id import TopicIdFile
from tidelog.storage.segment.segment import LogSegment


@dataclass(frozen=True, kw_only=True)
class LogContext:
    """The parts of a request that all logs of one owner share."""

    clock: Clock
    scheduler: Scheduler | None = None
    """The scheduler of the logs' background tasks (``log_tasks``)."""
    is_sole_replica: bool = True
    """No other broker replicates the log, so its high watermark is the log end."""
    verifies_transactions: bool = False
    """True if a client's first batch of a transaction needs a verification guard (KIP-890)."""
    syncs_rolls: bool = False
    """True if an append that rolls waits until the log is on the disk. A power failure then loses the last records
    only. Kafka's rolls do not wait, so a later segment may survive without the records before it."""
    on_failure: Callable[[StorageError], None] = lambda _error: None
    """Called when the disk fails a write or a read, possibly under the log's locks."""
    on_flush: Callable[[int], None] = lambda _took_ms: None
    """Called with the duration of each flush in ms."""

    def shared(self) -> dict[str, Any]:
        """Return these fields by name, for the request of one log."""
        return {field.name: getattr(self, field.name) for field in fields(LogContext)}


@dataclass(frozen=True, kw_only=True)
class OpenRequest(LogContext, LoadRequest):
    """The log's location, its checkpointed offsets, and the callbacks of its owner."""

    high_watermark: int = 0
    """The initial high watermark of a log with other replicas; a sole replica's is the log end."""
    syncs_name: bool = True
    """A newly created directory's name is durable after opening. False: the caller syncs the parent directory."""
    topic_id: uuid.UUID | None = None
    """The id of the topic that the log must belong to."""
    on_high_watermark: Callable[[int], None] | None = None
    """Called with each new high watermark, under the log's lock."""


def load_or_create(request: OpenRequest) -> LoadedLog:
    """Load the directory; create it if it is missing. The caller holds the log directory's lock."""
    now_ms = request.clock.now_ms()
    try:
        return load_log(request, now_ms=now_ms)
    except FileMissingError:
        if request.fs.exists(request.directory):
            raise
        request.fs.make_dir(request.directory)
        if request.syncs_name:
            request.fs.sync_dir(request.directory.parent)
        return load_log(request, now_ms=now_ms)


def new_state(request: OpenRequest, loaded: LoadedLog, tasks: LogTasks) -> LogState:
    """Build the state of a loaded log. The first append grows the active segment's indexes."""
    now_ms, limits = request.clock.now_ms(), request.config.segment_limits
    segments = LogSegments(
        tuple(
            LogSegment(request.fs, request.directory, base, limits, now_ms=now_ms, size=loaded.sizes.get(base))
            for base in loaded.base_offsets
        )
    )
    active, listing = segments.last, request.listing
    active.grow_indexes()
    if loaded.created_segment:
        active.preallocate()
    end = LogOffsetMetadata(loaded.end_offset, active.base_offset, active.size)
    state = LogState(
        fs=request.fs,
        directory=request.directory,
        clock=request.clock,
        config=request.config,
        segments=segments,
        offsets=LogOffsets(log_start=loaded.log_start_offset, log_end=end, recovery_point=loaded.recovery_point),
        epochs=loaded.epochs,
        producers=loaded.producers,
        is_sole_replica=request.is_sole_replica,
        verifies_transactions=request.verifies_transactions,
        syncs_rolls=request.syncs_rolls,
        topic=TopicIdFile(
            request.fs, request.directory, None if listing is None else listing.contents.get(PARTITION_METADATA_FILE)
        ),
        deleted=DeletedSegments(request.fs),
        tasks=tasks,
        written_epochs=loaded.written_epochs,
        dropped_epoch=loaded.written_epochs[-1].epoch if loaded.written_epochs != loaded.epochs.entries else None,
        dirty={segment.base_offset for segment in loaded.recovered},
    )
    state.offsets.on_high_watermark = request.on_high_watermark
    state.set_log_end(end)
    if not request.is_sole_replica:
        state.offsets.update_high_watermark(LogOffsetMetadata(request.high_watermark))
    state.after_high_watermark()
    return state
