"""Log: one partition, as a Python object. Thin: it checks, translates, and hands on to the engine.

Reading goes through a LogView in either mode, so the records of a log that is open for writing are read from its files
like anybody's. Writing goes to a LogWriter, which owns the partition and the directory's lock.

State: open, then closed; every call on a closed log raises ClosedError. A log opened for writing belongs to the process
that opened it: in a forked child every writing call raises ForkError, reading goes on. Thread rule: any thread may call
anything; an iterator belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from tidelog.api.following import ReadRequest, follow_columns, read_columns
from tidelog.api.producer import Producer
from tidelog.api.transaction import Transaction
from tidelog.api.writing import Bytes, HeaderPairs, LogWriter
from tidelog.model import ClosedError, Isolation, LogOffsetSnapshot, ReadOnlyError, Record, TopicPartition
from tidelog.record.rows import iter_records
from tidelog.runtime import SYSTEM_CLOCK, Clock
from tidelog.storage.log.list_offsets import ListedOffset, OffsetSpec
from tidelog.storage.log.view.column_stream import ALL_COLUMNS, MAX_BYTES, MAX_ROWS, ColumnChoice
from tidelog.storage.log.view.directory_state import Condition
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
    """Made by ``tidelog.open_log`` and ``Directory.log``; a context manager.

    Where a read ends (``until``): by default at the high watermark that a live owner has checkpointed, or at the end of
    the valid batches in a directory that nobody holds and in a log that is open for writing here. ``"log_end"``,
    ``"high_watermark"`` and ``"checkpoint"`` (the recovery point) say otherwise.
    """

    def __init__(
        self,
        view: LogView,
        writer: LogWriter | None = None,
        producers: ProducerSessions | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """``producers`` comes with ``writer``; their owner, if it is not ``writer``, closes them."""
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
        """None where the directory's name is not TOPIC-PARTITION."""
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
        self,
        value: Bytes | None,
        key: Bytes | None = None,
        headers: HeaderPairs = (),
        timestamp: int | None = None,
    ) -> int:
        """Append one record; its offset. ``timestamp`` in milliseconds, None for now.

        It is in the page cache on return, so it outlives this process but not the machine; see ``flush``.
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
        """Append many records at once; their offsets, in order.

        ``values``: a list, with ``keys``, ``headers`` and ``timestamps`` of its length where given; or Arrow data with
        a column ``value`` and, as wanted, ``key``, ``timestamp`` and ``headers``.
        """
        return self._writing().append_batch(values, keys=keys, headers=headers, timestamps=timestamps)

    def producer(self, producer_id: int | None = None, *, epoch: int | None = None) -> Producer:
        """An idempotent producer: an append that is repeated with its sequence is in the log once; see ``Producer``.

        None is a new id, above all that the directory knows. With the id of an earlier producer, of this process or one
        before it, that one's work is taken up: what it left open is aborted (in this log, or for a log of
        ``open_directory`` in every partition of it), and if it still lives its next call raises
        InvalidProducerEpochError. Any other number is an id too; below 2^52 are those that Kafka hands out.

        ``epoch`` None is the one after its last, where sequences begin at 0; the last epoch itself goes on with its
        sequences; InvalidProducerEpochError for one below. The log forgets a producer that was silent for
        ``producer.id.expiration.ms`` (a day) or whose records were deleted.
        """
        return Producer(self, self._sessions().acquire(producer_id, epoch))

    def transaction(self) -> Transaction:
        """A transaction in this log: ``with log.transaction() as transaction: transaction.append(b"…")``.

        It is committed at the end of the block and aborted on an exception; readers with ``"read_committed"`` see all
        of it or nothing. If the process dies in the block it stays open until its producer id is taken up
        (``producer``). The id is the log's own. See ``Transaction``.
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
        """The records with offsets in [start, end), in order; from the log start, to the end that ``until`` sets.

        With ``follow`` the iterator waits at that end for more, until ``end``. OffsetOutOfRangeError, at once, for a
        start that the log does not have; CorruptRecordError on the way.
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
        """The same records as Arrow record batches, each of at most ``max_rows``, and of about ``max_bytes``.

        ``columns``: which of ``ARROW_COLUMNS``; what is left out is not decoded. ``timestamps``: as
        ``timestamp[ms, UTC]``, as ``timestamp[us, UTC]``, or as int64 milliseconds as they stand in the log.
        """
        from tidelog.record.arrow import to_arrow  # Arrow is loaded by those who ask for it

        names = list(columns)
        unknown = sorted(set(names) - set(ARROW_COLUMNS))
        if unknown or not names:
            raise ValueError(f"columns are some of {', '.join(ARROW_COLUMNS)}; given: {', '.join(names) or 'none'}")
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
        """Log start, last stable offset, high watermark (the end that ``until`` sets) and log end, at one moment."""
        if self._writer is not None and until is None:
            self._check_open()
            return self._writer.log.offsets()
        return self._fresh_view().offsets(self._until(until))

    def count_between(self, start: int | None = None, end: int | None = None) -> RecordCount:
        """How many records lie in [start, end), exactly: by default between the high watermark and the log end.

        The result has ``records`` (of aborted and open transactions too), ``control_records`` (markers) and
        ``offsets``, the distance, which is more than both together where compaction left gaps. Batch headers are read,
        few records decoded. The high watermark is the owner's own for a log that is open for writing, else the last one
        checkpointed. OffsetOutOfRangeError for a bound outside of [log start, log end].
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
        """Offset of the first record at or after a time in milliseconds; None where there is none."""
        found = self._fresh_view().offset_for_timestamp(
            timestamp_ms, isolation=Isolation(isolation), until=self._until(until)
        )
        return None if found is None else found.offset

    def offset_of_max_timestamp(
        self, isolation: IsolationName | Isolation = "read_uncommitted", until: UntilName | Until | None = None
    ) -> int | None:
        """Offset of the first record with the largest timestamp; None where no record has one."""
        found = self._fresh_view().latest_timestamp(isolation=Isolation(isolation), until=self._until(until))
        return None if found is None else found.offset

    def list_offset(
        self,
        spec: SpecName | int,
        isolation: IsolationName | Isolation = "read_uncommitted",
        until: UntilName | Until | None = None,
    ) -> ListedOffset | None:
        """Kafka's ListOffsets: an offset by time or by name, with the record's timestamp and leader epoch.

        ``spec``: a time in ms, or ``"earliest"`` (the log start), ``"latest"`` (the end of the read),
        ``"max_timestamp"``, ``"earliest_local"``, ``"latest_tiered"``, or Kafka's negative number for one of these.
        None where no record is as late. ValueError for another word or negative number.
        """
        number = spec if isinstance(spec, int) else _SPECS.get(spec)
        if number is None:
            raise ValueError(f"an offset is listed by a time in ms or one of {', '.join(_SPECS)}, not {spec!r}")
        return self._fresh_view().list_offset(number, isolation=Isolation(isolation), until=self._until(until))

    def flush(self) -> None:
        """Return when everything appended so far is on disk."""
        self._writing().flush()

    def close(self) -> None:
        """Idempotent. A log open for writing is flushed and its lock released; an open transaction is aborted."""
        if not self._closed:
            self._closed = True
            if self._writer is not None:
                if self._producers is not None:
                    self._producers.release(self._writer.log)
                self._writer.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """What appends go to."""
        return self._writing().log

    def _sessions(self) -> ProducerSessions:
        self._writing()
        assert self._producers is not None
        return self._producers

    def _fresh_view(self) -> LogView:
        """The view as of now, where somebody may be writing."""
        self._check_open()
        if self._writer is not None or self._view.condition is Condition.HELD:
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
