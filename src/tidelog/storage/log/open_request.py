"""The input for opening a partition log, as a value."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import StorageError
from tidelog.runtime import Clock, Scheduler
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.load.listing import PartitionListing
from tidelog.storage.log.load.loader import LoadRequest
from tidelog.storage.log.load.parallel_walks import WalkThreads
from tidelog.storage.segment.segment_recovery import RecoveredSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """The log's location, its checkpointed offsets, and the callbacks of its owner."""

    fs: FileSystem
    directory: Path
    clock: Clock
    config: LogConfig
    clean_shutdown: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    """The initial high watermark of a log with other replicas; a sole replica's is the log end."""
    is_sole_replica: bool = True
    verifies_transactions: bool = False
    """True if a client's first batch of a transaction needs a verification guard (KIP-890)."""
    syncs_name: bool = True
    """A newly created directory's name is durable after opening. False: the caller syncs the parent directory."""
    topic_id: uuid.UUID | None = None
    """The id of the topic that the log must belong to."""
    on_high_watermark: Callable[[int], None] | None = None
    """Called with each new high watermark, under the log's lock."""
    on_failure: Callable[[StorageError], None] = lambda _error: None
    """Called when the disk fails a write or a read, possibly under the log's locks."""
    on_flush: Callable[[int], None] = lambda _took_ms: None
    """Called with the duration of each flush in ms."""
    scheduler: Scheduler | None = None
    """The scheduler of the log's background tasks (``log_tasks``)."""
    threads: WalkThreads | None = None
    on_segment: Callable[[RecoveredSegment], None] | None = None
    listing: PartitionListing | None = None
    """The directory's content, as in ``LoadRequest``."""

    @property
    def load_request(self) -> LoadRequest:
        return LoadRequest(
            fs=self.fs,
            directory=self.directory,
            config=self.config,
            now_ms=self.clock.now_ms(),
            clean_shutdown=self.clean_shutdown,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            threads=self.threads,
            on_segment=self.on_segment,
            listing=self.listing,
        )
