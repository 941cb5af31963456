"""The error tree: one root, every error with file, position, offset and Kafka's error code.

``str(error)`` is a sentence for a person: the problem first, then its place. ``code`` is the number from
Kafka's protocol (class ``Errors``), so a server can send it to a client unchanged.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from pathlib import PurePath

_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""A process or a machine has reached a limit: these errors do not mean that a disk failed."""


class TidelogError(Exception):
    """The root of every error tidelog raises on purpose.

    ``path`` is the file, ``position`` the byte in it, ``offset`` the log offset. Each is None if it has no meaning.
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
        """Pickle every field: Spark carries errors from its workers to the driver."""
        return (type(self)._restore, (type(self), self.message, self.path, self.position, self.offset))

    @staticmethod
    def _restore(
        cls: type[TidelogError], message: str, path: str | None, position: int | None, offset: int | None
    ) -> TidelogError:
        return cls(message, path=path, position=position, offset=offset)


class CorruptRecordError(TidelogError):
    """The bytes of a batch or record contradict themselves: CRC, length, count, varint, codec (CORRUPT_MESSAGE)."""

    code = 2


class RecordError(NamedTuple):
    """The error of a single record in a batch (KIP-467)."""

    batch_index: int
    """The record's index in its batch, from 0."""
    message: str


class Refusal(enum.Enum):
    """A reason for refusing records that Kafka counts (``BrokerTopicMetrics``)."""

    MAGIC = "invalid magic number"
    OFFSET = "invalid offset or control record"
    SEQUENCE = "invalid offset or sequence"
    NO_KEY = "no key in a compacted topic"


class InvalidRecordError(TidelogError):
    """The log does not accept these records (INVALID_RECORD).

    ``record_errors`` names the records at fault, if the reason lies in single records. ``refusals`` are the counted
    reasons: one entry per record if the reason lies in single records.
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
    """A record's timestamp is too far from the clock, or has the wrong type (INVALID_TIMESTAMP)."""

    code = 32


class RecordTooLargeError(TidelogError):
    """A batch is larger than ``max.message.bytes`` (MESSAGE_TOO_LARGE)."""

    code = 10


class RecordBatchTooLargeError(TidelogError):
    """All batches of an append together are larger than a segment (RECORD_LIST_TOO_LARGE)."""

    code = 18


class OffsetOutOfRangeError(TidelogError):
    """A read is below the log start offset or above the log end offset (OFFSET_OUT_OF_RANGE)."""

    code = 1


class OffsetsOutOfOrderError(TidelogError):
    """The offsets of a leader's batches do not ascend (UNKNOWN_SERVER_ERROR: Kafka has no code for it)."""


class UnexpectedAppendOffsetError(TidelogError):
    """A leader's batches begin below the log end offset (UNKNOWN_SERVER_ERROR: Kafka has no code for it).

    ``offset`` is the first offset of the batches, ``last_offset`` the last one.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | PurePath | None = None,
        position: int | None = None,
        offset: int | None = None,
        last_offset: int | None = None,
    ) -> None:
        super().__init__(message, path=path, position=position, offset=offset)
        self.last_offset = last_offset

    def __reduce__(self) -> tuple[Any, ...]:
        restore, arguments = super().__reduce__()
        return (restore, arguments, {"last_offset": self.last_offset})


class UnsupportedFormatError(TidelogError):
    """This release cannot read the magic or file version (UNSUPPORTED_FOR_MESSAGE_FORMAT)."""

    code = 43


class UnsupportedCompressionError(TidelogError):
    """Kafka does not define the codec number (UNSUPPORTED_COMPRESSION_TYPE)."""

    code = 76


class OutOfOrderSequenceError(TidelogError):
    """A producer's batch does not follow its last one (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    code = 45


class InvalidProducerEpochError(TidelogError):
    """A newer producer with the same id has fenced off the batch's producer (INVALID_PRODUCER_EPOCH)."""

    code = 47


class InvalidTransactionStateError(TidelogError):
    """The producer's transaction does not allow the batch or marker (INVALID_TXN_STATE)."""

    code = 48


class InconsistentTopicIdError(TidelogError):
    """The log belongs to another topic of the same name (INCONSISTENT_TOPIC_ID)."""

    code = 103


class TransactionCoordinatorFencedError(TidelogError):
    """A newer transaction coordinator has replaced the marker's coordinator (TRANSACTION_COORDINATOR_FENCED)."""

    code = 52


class UnknownTopicOrPartitionError(TidelogError):
    """No directory holds the partition (UNKNOWN_TOPIC_OR_PARTITION)."""

    code = 3


class StorageError(TidelogError):
    """The disk, or a file on it, cannot be used (KAFKA_STORAGE_ERROR)."""

    code = 56

    @property
    def is_disk_failure(self) -> bool:
        """True if the disk refused a call. False for a limit, wrong file contents, or a caller's mistake."""
        return isinstance(self.__cause__, OSError) and self.__cause__.errno not in _LIMITS


class IndexCorruptError(StorageError):
    """An index file contradicts itself or its log; it can be rebuilt from the log."""


class InvalidOffsetError(StorageError):
    """An offset is not above the last one of its index: the log's offsets go backwards."""


class OffsetOverflowError(StorageError):
    """An offset is more than 31 bits above its segment's base offset: no index can hold it."""


class SnapshotCorruptError(StorageError):
    """A producer snapshot cannot be read; it can be rebuilt from the log."""


class CheckpointError(StorageError):
    """A checkpoint file cannot be read."""


class FileMissingError(StorageError):
    """A file does not exist: it was never written, or a live broker has deleted or renamed it."""


class DirectoryError(StorageError):
    """A path is not a log directory, or cannot be listed."""


class LockedError(StorageError):
    """Another process (a broker, or tidelog) holds the directory's ``.lock``."""


class ReadOnlyError(TidelogError):
    """A writing call reached an object that was opened for reading."""


class ClosedError(TidelogError):
    """A call reached a closed log."""


class CancelledError(TidelogError):
    """The caller cancelled a long run; a later run can continue from its leftover files."""


class LogCleaningAbortedError(TidelogError):
    """The clean of a log ended early, because its records were truncated, deleted or moved. The log stays valid."""


class ForkError(TidelogError):
    """A log opened for writing in one process was used in its forked child."""


class ConfigError(TidelogError):
    """A configuration value is not allowed (INVALID_CONFIG)."""

    code = 40


class ZooKeeperError(TidelogError):
    """ZooKeeper is away, responds too slowly, or refuses a request."""


class ZnodeError(TidelogError):
    """A znode has data that is not valid, or that this release does not know. The message begins with its path."""
