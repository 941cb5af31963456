"""What it takes to open a partition log. A value."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.runtime import Clock
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.load.loader import LoadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRequest:
    """Where the log lies and what the checkpoints say of it."""

    fs: FileSystem
    directory: Path
    clock: Clock
    config: LogConfig
    clean_shutdown: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    """Of a log with other replicas; without any it is the log end."""
    is_sole_replica: bool = True
    verifies_transactions: bool = False
    """Whether a client's first batch of a transaction needs a guard (KIP-890)."""
    topic_id: uuid.UUID | None = None
    """Of the topic that the log has to belong to."""
    on_high_watermark: Callable[[int], None] | None = None
    """Told each new high watermark, under the log's lock."""

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
        )
