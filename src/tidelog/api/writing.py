"""The protocols of writers, so that Log and Directory need not know the engine's owner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow

    from tidelog.model import TopicPartition
    from tidelog.storage.log.partition_log import PartitionLog
    from tidelog.storage.producer import ProducerEntry

Bytes = bytes | bytearray | memoryview
HeaderPairs = Iterable[tuple[str, bytes | None]]


class LogWriter(Protocol):
    """A partition that this process owns. Every call may raise ForkError, StorageError and InvalidRecordError."""

    def append(self, value: Bytes | None, key: Bytes | None, headers: HeaderPairs, timestamp_ms: int | None) -> int: ...

    def append_batch(
        self,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None,
        headers: Sequence[HeaderPairs] | None,
        timestamps: Sequence[int | None] | None,
    ) -> range: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    @property
    def log(self) -> PartitionLog:
        """The engine's log, which has the state without a look at files, and to which appends go."""
        ...


class DirectoryWriter(Protocol):
    """A log directory whose lock this process holds."""

    @property
    def path(self) -> Path: ...

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """Yield each partition with its producers' state."""
        ...

    def open_log(self, path: Path) -> LogWriter:
        """Load a partition of this directory, or create it if it is missing."""
        ...

    def close(self) -> None: ...
