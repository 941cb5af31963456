"""The error tree: one root, every error with file, position, offset and Kafka's error code.

``str(error)`` is a sentence for a person: what is wrong, then where. ``code`` is the number in
Kafka's protocol (class ``Errors``), so a server can answer with it unchanged.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from pathlib import PurePath

_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What a process or a machine has too much of says nothing of a disk."""


class TidelogError(Exception):
    """Root of every error tidelog raises on purpose.

    ``path`` is the file, ``position`` the byte in it, ``offset`` the log offset: each None where it has no meaning.
    """

    code: ClassVar[int] = -1
    """Kafka's protocol error code; -1 is UNKNOWN_SERVER_ERROR."""

    def __init__(
        self,
        message: str,
        *,
        path: str | PurePath | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else str(path)
        self.position = position
        self.offset = offset

    def __str__(self) -> str:
        where = [
            text
            for text, value in (
                (f"file {self.path}", self.path),
                (f"position {self.position}", self.position),
                (f"offset {self.offset}", self.offset),
            )
            if value is not None
        ]
        return f"{self.message} ({', '.join(where)})" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle whole: Spark carries errors from its workers to the driver."""
        return (type(self)._restore, (type(self), self.message, self.path, self.position, self.offset))

    @staticmethod
    def _restore(
        cls: type[TidelogError], message: str, path: str | None, position: int | None, offset: int | None
    ) -> TidelogError:
        return cls(message, path=path, position=position, offset=offset)


class CorruptRecordError(TidelogError):
    """Bytes of a batch or record contradict themselves: CRC, length, count, varint, codec (CORRUPT_MESSAGE)."""

    code = 2


class RecordError(NamedTuple):
    """What is wrong with one record of a batch (KIP-467)."""

    batch_index: int
    """Of the record in its batch, from 0."""
    message: str


class Refusal(enum.Enum):
    """Why records were refused, where Kafka keeps a count of it (``BrokerTopicMetrics``)."""

    MAGIC = "invalid magic number"
    OFFSET = "invalid offset or control record"
    SEQUENCE = "invalid offset or sequence"
    NO_KEY = "no key in a compacted topic"


class InvalidRecordError(TidelogError):
    """Records that this log may not take (INVALID_RECORD).

    ``record_errors``: which of them, where the reason lies in single records. ``refusals``: the reasons that are
    counted, one entry a record where they lie in records.
    """

    code = 87

    def __init__(
        self,
        message: str,
        *,
        path: str | PurePath | None = None,
        position: int | None = None,
        offset: int | None = None,
        record_errors: Iterable[RecordError] = (),
        refusals: Iterable[Refusal] = (),
    ) -> None:
        super().__init__(message, path=path, position=position, offset=offset)
        self.record_errors = tuple(record_errors)
        self.refusals = tuple(refusals)

    def __reduce__(self) -> tuple[Any, ...]:
        restore, arguments = super().__reduce__()
        return (restore, arguments, {"record_errors": self.record_errors, "refusals": self.refusals})


class InvalidTimestampError(InvalidRecordError):
    """A record's timestamp is too far from the clock, or of the wrong type (INVALID_TIMESTAMP)."""

    code = 32


class RecordTooLargeError(TidelogError):
    """A batch is larger than ``max.message.bytes`` (MESSAGE_TOO_LARGE)."""

    code = 10


class RecordBatchTooLargeError(TidelogError):
    """A whole append is larger than a segment (RECORD_LIST_TOO_LARGE)."""

    code = 18


class OffsetOutOfRangeError(TidelogError):
    """A read below the log start or above the end (OFFSET_OUT_OF_RANGE)."""

    code = 1


class OffsetsOutOfOrderError(TidelogError):
    """Batches from a leader whose offsets do not ascend (UNKNOWN_SERVER_ERROR: Kafka has no code for it)."""


class UnexpectedAppendOffsetError(TidelogError):
    """Batches from a leader that begin below the log end; ``offset`` is their first (UNKNOWN_SERVER_ERROR)."""


class UnsupportedFormatError(TidelogError):
    """A magic or file version this release cannot read (UNSUPPORTED_FOR_MESSAGE_FORMAT)."""

    code = 43


class UnsupportedCompressionError(TidelogError):
    """A codec number that Kafka does not define (UNSUPPORTED_COMPRESSION_TYPE)."""

    code = 76


class OutOfOrderSequenceError(TidelogError):
    """A producer's batch does not follow its last one (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    code = 45


class InvalidProducerEpochError(TidelogError):
    """A batch of a producer that a newer one with its id has fenced off (INVALID_PRODUCER_EPOCH)."""

    code = 47


class InvalidTransactionStateError(TidelogError):
    """A batch or marker that the producer's transaction does not allow (INVALID_TXN_STATE)."""

    code = 48


class InconsistentTopicIdError(TidelogError):
    """A log belongs to another topic of the same name (INCONSISTENT_TOPIC_ID)."""

    code = 103


class TransactionCoordinatorFencedError(TidelogError):
    """A marker of a transaction coordinator that a newer one has replaced (TRANSACTION_COORDINATOR_FENCED)."""

    code = 52


class UnknownTopicOrPartitionError(TidelogError):
    """No directory holds that partition (UNKNOWN_TOPIC_OR_PARTITION)."""

    code = 3


class StorageError(TidelogError):
    """The disk, or a file on it, cannot be used (KAFKA_STORAGE_ERROR)."""

    code = 56

    @property
    def is_disk_failure(self) -> bool:
        """The disk refused a call; else a limit was met, the contents of a file are wrong, or the caller is."""
        return isinstance(self.__cause__, OSError) and self.__cause__.errno not in _LIMITS


class IndexCorruptError(StorageError):
    """An index file contradicts itself or its log; it can be rebuilt from the log."""


class InvalidOffsetError(StorageError):
    """An offset that is not above the last one of its index: the log's offsets go backwards."""


class OffsetOverflowError(StorageError):
    """An offset more than 31 bits above its segment's base offset: no index can hold it."""


class SnapshotCorruptError(StorageError):
    """A producer snapshot cannot be read; it can be rebuilt from the log."""


class CheckpointError(StorageError):
    """A checkpoint file cannot be read."""


class FileMissingError(StorageError):
    """A file is not there: never written, or a live broker deleted or renamed it in the meantime."""


class DirectoryError(StorageError):
    """A path is not a log directory, or cannot be listed."""


class LockedError(StorageError):
    """Another process (a broker, or tidelog) holds the directory's ``.lock``."""


class ReadOnlyError(TidelogError):
    """A writing call on something opened for reading."""


class ClosedError(TidelogError):
    """A call on a closed log."""


class CancelledError(TidelogError):
    """A long run was cancelled by whoever started it; what it left can be gone on from."""


class LogCleaningAbortedError(TidelogError):
    """A clean of a log was given up, for its records were truncated, deleted or moved meanwhile; the log is whole."""


class ForkError(TidelogError):
    """A log opened for writing in one process was used in its forked child."""


class ConfigError(TidelogError):
    """A configuration value is not allowed (INVALID_CONFIG)."""

    code = 40
