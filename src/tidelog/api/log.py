"""Log: one partition as a Python object. It checks and converts arguments, then calls the engine.

Reads use a LogView in either mode, so a log that is open for writing is read from its files, too. Writes go to a
LogWriter, which owns the partition and the directory's lock. A Log is open, then closed; every call on a closed log
raises ClosedError. A log opened for writing belongs to the process that opened it. In a forked child every write raises
ForkError, while reads continue. Thread rule: any thread. An iterator belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from tidelog.api.following import ReadRequest, follow_columns, read_columns
from tidelog.api.producer import Producer
from tidelog.api.transaction import Transaction
from tidelog.api.writing import Bytes, HeaderPairs, LogWriter
from tidelog.model import ClosedError, Isolation, LogOffsetSnapshot, ReadOnlyError, Record, TopicPartition
from tidelog.record.rows import iter_records
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.log.view.column_stream import ALL_COLUMNS, MAX_BYTES, MAX_ROWS, ColumnChoice
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.list_offsets import ListedOffset, OffsetSpec
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.record_count import RecordCount

if TYPE_CHECKING:
    import pyarrow

    from tidelog.storage.log.partition_log import PartitionLog
    from tidelog.storage.manager.producers.producer_sessions import ProducerSessions

IsolationName = Literal["read_uncommitted", "read_committed", "log_end"]
UntilName = Literal["log_end", "high_watermark", "checkpoint"]
SpecName = Literal["earliest", "latest", "max_timestamp", "earliest_local", "latest_tiered"]
ARROW_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value", "headers")

_SPECS = {spec.name.lower(): int(spec) for spec in OffsetSpec}


class Log:
    """The return value of ``tidelog.open_log`` and ``Directory.log``; a context manager.

    ``until`` sets the end of a read. The default is the high watermark that a live owner has checkpointed. It is the
    end of the valid batches if no process holds the directory, or if this log is open for writing. The values
    ``"log_end"``, ``"high_watermark"`` and ``"checkpoint"`` (the recovery point) override it.
    """

    def __init__(
        self,
        view: LogView,
        writer: LogWriter | None = None,
        producers: ProducerSessions | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``producers`` comes with ``writer``. If their owner is not ``writer``, the owner closes them."""
        self._view = view
        self._writer = writer
        self._producers = producers
        self._clock = clock
        self._closed = False

    @property
    def path(self) -> Path:
        """The partition's directory."""
        return self._view.directory

    @property
    def topic_partition(self) -> TopicPartition | None:
        """None if the directory's name is not TOPIC-PARTITION."""
        return self._view.topic_partition

    @property
    def read_only(self) -> bool:
        return self._writer is None

    @property
    def closed(self) -> bool:
        return self._closed

    def __repr__(self) -> str:
        state = "closed" if self._closed else "read-only" if self.read_only else "open"
        return f"<Log {self.path} ({state})>"

    def append(
        self, value: Bytes | None, key: Bytes | None = None, headers: HeaderPairs = (), timestamp: int | None = None
    ) -> int:
        """Append one record and return its offset. ``timestamp`` is in milliseconds, None for the current time.

        On return the record is in the page cache: it survives the process but not the machine; see ``flush``.
        """
        return self._writing().append(value, key, headers, timestamp)

    def append_batch(
        self,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
    ) -> range:
        """Append many records at once and return their offsets, ascending.

        ``values`` is a list, with lists ``keys``, ``headers`` and ``timestamps`` of the same length if given. It may
        also be Arrow data with a column ``value`` and optional columns ``key``, ``timestamp`` and ``headers``.
        """
        return self._writing().append_batch(values, keys=keys, headers=headers, timestamps=timestamps)

    def producer(self, producer_id: int | None = None, *, epoch: int | None = None) -> Producer:
        """Return an idempotent producer: a repeated append with its sequence is in the log once; see ``Producer``.

        None takes a new id, above all ids that the directory knows. The id of an earlier producer, of this process or
        an earlier one, takes over its work. Its open transaction is aborted: in this log, or for a log of
        ``open_directory`` in every partition. If the earlier producer still lives, its next call raises
        InvalidProducerEpochError. Any other number is an id too. The ids that Kafka allocates are below 2^52.

        ``epoch`` None is the epoch after the last one, and sequences begin at 0. The last epoch itself continues its
        sequences. A lower one raises InvalidProducerEpochError. The log forgets a producer that was silent for
        ``producer.id.expiration.ms`` (a day) or whose records were deleted.
        """
        return Producer(self, self._sessions().acquire(producer_id, epoch))

    def transaction(self) -> Transaction:
        """Return a transaction in this log: ``with log.transaction() as transaction: transaction.append(b"…")``.

        The end of the block commits it, and an exception aborts it. Readers with ``"read_committed"`` see all of it or
        nothing. If the process dies in the block, it stays open until its producer id is taken over (``producer``). The
        id is the log's own. See ``Transaction``.
        """
        return Transaction(self, self._sessions())

    def records(
        self,
        start: int | None = None,
        end: int | None = None,
        isolation: IsolationName | Isolation = "read_uncommitted",
        until: UntilName | Until | None = None,
        follow: bool = False,
    ) -> Iterator[Record]:
        """Return the records with offsets in [start, end), ascending.

        By default they begin at the log start and end as ``until`` sets. With ``follow`` the iterator waits at that end
        for more, until ``end``. Raise OffsetOutOfRangeError at once if the log does not have ``start``. The iterator
        raises CorruptRecordError.
        """
        view = self._fresh_view()
        request = self._request(start, end, isolation, until)
        if follow:
            chunks = follow_columns(view, request, ALL_COLUMNS, self._clock, self._check_open)
        else:
            chunks = read_columns(view, request, ALL_COLUMNS)
        return chain.from_iterable(iter_records(chunk.columns) for chunk in chunks)

    def to_arrow(
        self,
        start: int | None = None,
        end: int | None = None,
        isolation: IsolationName | Isolation = "read_uncommitted",
        until: UntilName | Until | None = None,
        *,
        columns: Iterable[str] = ARROW_COLUMNS,
        timestamps: Literal["ms", "us", "int64"] = "ms",
        max_rows: int = MAX_ROWS,
        max_bytes: int = MAX_BYTES,
    ) -> Iterator[pyarrow.RecordBatch]:
        """Return the same records as Arrow record batches, each of at most ``max_rows`` and about ``max_bytes``.

        ``columns`` are some of ``ARROW_COLUMNS``; other columns are not decoded. ``timestamps`` gives the type:
        ``timestamp[ms, UTC]``, ``timestamp[us, UTC]``, or the int64 milliseconds of the log.
        """
        from tidelog.record.arrow import to_arrow  # loads Arrow only for this call

        names = list(columns)
        unknown = sorted(set(names) - set(ARROW_COLUMNS))
        if unknown or not names:
            raise ValueError(f"columns must be some of {', '.join(ARROW_COLUMNS)}; given: {', '.join(names) or 'none'}")
        choice = ColumnChoice(
            keys="key" in names,
            values="value" in names,
            headers="headers" in names,
            max_rows=max_rows,
            max_bytes=max_bytes,
        )
        chunks = read_columns(self._fresh_view(), self._request(start, end, isolation, until), choice)

        def batches() -> Iterator[Any]:
            for chunk in chunks:
                batch = to_arrow(chunk.columns, timestamps=timestamps).select(names)
                for first in range(0, batch.num_rows, max_rows):
                    yield batch.slice(first, max_rows)

        return batches()

    def offsets(self, until: UntilName | Until | None = None) -> LogOffsetSnapshot:
        """Return log start, last stable offset, high watermark (the end of ``until``) and log end, at one moment."""
        if self._writer is not None and until is None:
            self._check_open()
            return self._writer.log.offsets()
        return self._fresh_view().offsets(self._until(until))

    def count_between(self, start: int | None = None, end: int | None = None) -> RecordCount:
        """Return the exact number of records in [start, end), by default between the high watermark and the log end.

        The result has ``records`` (aborted and open transactions included), ``control_records`` (markers) and
        ``offsets``. The last is the distance, which is greater than their sum if compaction left gaps. Batch headers
        are read, and few records decoded. The high watermark is the owner's own for a log open for writing, else the
        last checkpointed one. Raise OffsetOutOfRangeError if a bound is outside [log start, log end].
        """
        view = self._fresh_view()
        if start is None and self._writer is not None:
            start = self._writer.log.offsets().high_watermark.message_offset
        return view.count_between(start, end)

    def offset_for_timestamp(
        self,
        timestamp_ms: int,
        isolation: IsolationName | Isolation = "read_uncommitted",
        until: UntilName | Until | None = None,
    ) -> int | None:
        """Return the offset of the first record at or after a time in milliseconds, or None."""
        found = self._fresh_view().offset_for_timestamp(
            timestamp_ms, isolation=Isolation(isolation), until=self._until(until)
        )
        return None if found is None else found.offset

    def offset_of_max_timestamp(
        self, isolation: IsolationName | Isolation = "read_uncommitted", until: UntilName | Until | None = None
    ) -> int | None:
        """Return the offset of the first record with the largest timestamp, or None if no record has a timestamp."""
        found = self._fresh_view().latest_timestamp(isolation=Isolation(isolation), until=self._until(until))
        return None if found is None else found.offset

    def list_offset(
        self,
        spec: SpecName | int,
        isolation: IsolationName | Isolation = "read_uncommitted",
        until: UntilName | Until | None = None,
    ) -> ListedOffset | None:
        """Return an offset by time or by name, with the record's timestamp and leader epoch, like Kafka's ListOffsets.

        ``spec`` is a time in ms, ``"earliest"`` (the log start), ``"latest"`` (the end of the read),
        ``"max_timestamp"``, ``"earliest_local"``, ``"latest_tiered"``, or Kafka's negative number for one of these
        names. Return None if no record is that late. Raise ValueError for another word or negative number.
        """
        number = spec if isinstance(spec, int) else _SPECS.get(spec)
        if number is None:
            raise ValueError(f"offsets are listed by a time in ms or one of {', '.join(_SPECS)}, not {spec!r}")
        return self._fresh_view().list_offset(number, isolation=Isolation(isolation), until=self._until(until))

    def flush(self) -> None:
        """Return when everything appended so far is on disk."""
        self._writing().flush()

    def close(self) -> None:
        """Close the log. Idempotent. For writing, abort an open transaction, flush the log and release the lock."""
        if not self._closed:
            self._closed = True
            if self._writer is not None:
                if self._producers is not None:
                    self._producers.release(self._writer.log)
                self._writer.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the log is closed", path=self.path)

    def _writing(self) -> LogWriter:
        self._check_open()
        if self._writer is None:
            raise ReadOnlyError("the log was opened for reading only", path=self.path)
        return self._writer

    def _engine(self) -> PartitionLog:
        """Return the engine to append to."""
        return self._writing().log

    def _sessions(self) -> ProducerSessions:
        self._writing()
        assert self._producers is not None
        return self._producers

    def _fresh_view(self) -> LogView:
        """Return the view, refreshed if a process may be writing."""
        self._check_open()
        if self._writer is not None or self._view.condition is DirectoryCondition.HELD:
            self._view.refresh()
        return self._view

    def _until(self, until: UntilName | Until | None) -> Until | None:
        if until is None:
            return None if self._writer is None else Until.LOG_END
        return Until(until)

    def _request(
        self, start: int | None, end: int | None, isolation: IsolationName | Isolation, until: UntilName | Until | None
    ) -> ReadRequest:
        return ReadRequest(start=start, end=end, isolation=Isolation(isolation), until=self._until(until))
