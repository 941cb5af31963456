"""What the API asks of whoever writes: two protocols, so that Log and Directory need not know the engine's owner."""

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
        """What its owner knows of the log without looking at files, and appends to."""
        ...


class DirectoryWriter(Protocol):
    """A log directory whose lock this process holds."""

    @property
    def path(self) -> Path: ...

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]:
        """What each partition knows of producers."""
        ...

    def open_log(self, path: Path) -> LogWriter:
        """Load a partition of this directory, made if it is not there."""
        ...

    def close(self) -> None: ...
