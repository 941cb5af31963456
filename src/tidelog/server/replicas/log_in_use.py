"""The log of a partition that is in use now. A move between log directories replaces it.

The replication's cores read its offsets by this object, so they need not know of replacements. An offline log keeps its
last known offsets. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tidelog.model import ClosedError, LogOffsetMetadata, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_epochs import LogEpochs
from tidelog.storage.manager.log_manager import LogManager

Result = TypeVar("Result")


class LogInUse:
    def __init__(self, logs: LogManager, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self._logs = logs
        self._known: PartitionLog | None = None

    def get(self) -> PartitionLog | None:
        """Return the log, or None if it is offline or does not exist."""
        log = self._logs.log(self.topic_partition)
        if log is not None:
            self._known = log
        return log

    def require(self) -> PartitionLog:
        """Return the log. Raise ApiError(KAFKA_STORAGE_ERROR) if it is offline."""
        log = self.get()
        if log is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is in an offline log directory")
        return log

    def instead_of(self, closed: PartitionLog) -> PartitionLog:
        """Return the log that replaced ``closed`` after a move or a failure.

        Raise ApiError as ``require`` does, and ClosedError if there is no other log.
        """
        self._logs.handle_failures()  # returns once a running move or failure handling has ended
        log = self.require()
        if log is closed:
            raise ClosedError("the log is closed", path=closed.directory)
        return log

    def change(self, change: Callable[[PartitionLog], Result], log: PartitionLog | None = None) -> Result:
        """Change the log, or its replacement if a move replaces it meanwhile. Raise as ``instead_of`` does.

        ``log`` is the log in use if the caller has looked it up already.
        """
        log = self.require() if log is None else log
        while True:
            try:
                return change(log)
            except ClosedError:
                log = self.instead_of(log)

    @property
    def future(self) -> PartitionLog | None:
        """The future log of a move under way."""
        return self._logs.log(self.topic_partition, is_future=True)

    # --- for the cores ---

    @property
    def log_start_offset(self) -> int:
        return self._last_known.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self._last_known.high_watermark

    @property
    def end_offset(self) -> int:
        return self._last_known.end_offset

    @property
    def log_end(self) -> LogOffsetMetadata:
        return self._last_known.log_end

    @property
    def epochs(self) -> LogEpochs:
        return self._last_known.epochs

    @property
    def min_insync_replicas(self) -> int:
        return self._last_known.config.min_insync_replicas

    @property
    def _last_known(self) -> PartitionLog:
        log = self.get() or self._known
        return self.require() if log is None else log
