"""Apache Kafka's log storage in Python: read, check, query and extend real Kafka data directories.

Names are imported when they are first used, so that ``import tidelog`` costs milliseconds and a child process that
never reads a log never loads numpy or Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidelog.version import __version__

if TYPE_CHECKING:
    from tidelog.api import (
        Directory,
        DirectoryProducer,
        DirectoryTransaction,
        ListedOffset,
        Log,
        LogConfig,
        Producer,
        RecordCount,
        SnapshotResult,
        Transaction,
        open_directory,
        open_log,
        snapshot,
    )
    from tidelog.mirroring.mirror import mirror
    from tidelog.model import (
        CancelledError,
        CheckpointError,
        ClosedError,
        ConfigError,
        CorruptRecordError,
        DirectoryError,
        FileMissingError,
        ForkError,
        Header,
        InconsistentTopicIdError,
        IndexCorruptError,
        InvalidOffsetError,
        InvalidProducerEpochError,
        InvalidRecordError,
        InvalidTimestampError,
        InvalidTransactionStateError,
        Isolation,
        LockedError,
        LogCleaningAbortedError,
        LogOffsetMetadata,
        LogOffsetSnapshot,
        OffsetOutOfRangeError,
        OffsetOverflowError,
        OffsetsOutOfOrderError,
        OutOfOrderSequenceError,
        ReadOnlyError,
        Record,
        RecordBatchTooLargeError,
        RecordError,
        RecordTooLargeError,
        Refusal,
        SnapshotCorruptError,
        StorageError,
        TidelogError,
        TimestampType,
        TopicPartition,
        TransactionCoordinatorFencedError,
        UnexpectedAppendOffsetError,
        UnknownTopicOrPartitionError,
        UnsupportedCompressionError,
        UnsupportedFormatError,
        ZnodeError,
        ZooKeeperError,
    )

__all__ = [
    "CancelledError",
    "CheckpointError",
    "ClosedError",
    "ConfigError",
    "CorruptRecordError",
    "Directory",
    "DirectoryError",
    "DirectoryProducer",
    "DirectoryTransaction",
    "FileMissingError",
    "ForkError",
    "Header",
    "InconsistentTopicIdError",
    "IndexCorruptError",
    "InvalidOffsetError",
    "InvalidProducerEpochError",
    "InvalidRecordError",
    "InvalidTimestampError",
    "InvalidTransactionStateError",
    "Isolation",
    "ListedOffset",
    "LockedError",
    "Log",
    "LogCleaningAbortedError",
    "LogConfig",
    "LogOffsetMetadata",
    "LogOffsetSnapshot",
    "OffsetOutOfRangeError",
    "OffsetOverflowError",
    "OffsetsOutOfOrderError",
    "OutOfOrderSequenceError",
    "Producer",
    "ReadOnlyError",
    "Record",
    "RecordBatchTooLargeError",
    "RecordCount",
    "RecordError",
    "RecordTooLargeError",
    "Refusal",
    "SnapshotCorruptError",
    "SnapshotResult",
    "StorageError",
    "TidelogError",
    "TimestampType",
    "TopicPartition",
    "Transaction",
    "TransactionCoordinatorFencedError",
    "UnexpectedAppendOffsetError",
    "UnknownTopicOrPartitionError",
    "UnsupportedCompressionError",
    "UnsupportedFormatError",
    "ZnodeError",
    "ZooKeeperError",
    "__version__",
    "mirror",
    "open_directory",
    "open_log",
    "snapshot",
]

_ELSEWHERE = {"mirror": "tidelog.mirroring.mirror"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tidelog' has no attribute {name!r}")
    model = importlib.import_module("tidelog.model")
    home = _ELSEWHERE.get(name, "tidelog.model" if name in model.__all__ else "tidelog.api")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
