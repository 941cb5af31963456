"""The holder of a producer id and epoch: its appends to the directory's logs, and its transactions.

=============  =======================================================  ===============================================
state          entered when                                             allows
=============  =======================================================  ===============================================
*idle*         the session is created, or a transaction ends            appends, beginning a transaction
*open*         a transaction begins                                     appends of that transaction, ending it
*broken*       an append of the transaction fails                       ending it by an abort only
*refused*      a newer holder takes the id, a marker cannot be          nothing; every call raises the reason
               written, or the session is closed
=============  =======================================================  ===============================================

A transaction is recorded only in the logs. A crash leaves it open there, and the id's next holder aborts it. Markers
are written to one log after the other, and the decision itself is not stored. One lock serializes the appends of a
producer, because sequence numbers must ascend. Lock order: ProducerSessions', this one, a log's. Thread rule: any
thread. A forked child gets ForkError. Source: Kafka's ``TransactionManager`` (KIP-98), without its coordinator.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.model import ClosedError, InvalidProducerEpochError, InvalidTransactionStateError, TidelogError
from tidelog.runtime import Clock
from tidelog.storage.fs import ForkGuard
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.writers.producer_writer import ProducerWriter
from tidelog.storage.log.writers.record_writer import Bytes, HeaderPairs

if TYPE_CHECKING:
    import pyarrow


@dataclass(slots=True, eq=False)
class TransactionPart:
    """A transaction in its session. The caller passes it to every call, so that a late call is detected."""

    writers: list[ProducerWriter] = field(default_factory=list)
    """The writers of the participating logs, in the sequence in which they joined."""
    failure: BaseException | None = None
    """The error of the first failed append."""
    outcome: str = ""
    """The way in which it ended, empty while it is open."""


class ProducerSession:
    """Only ProducerSessions creates sessions."""

    def __init__(self, producer_id: int, epoch: int, *, clock: Clock, directory: Path) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self._clock = clock
        self._directory = directory
        self._guard = ForkGuard(directory)
        self._lock = threading.Lock()
        self._writers: dict[PartitionLog, ProducerWriter] = {}
        self._open: TransactionPart | None = None
        self._refusal: TidelogError | None = None

    def __str__(self) -> str:
        return f"producer {self.producer_id} of epoch {self.epoch}"

    @property
    def is_usable(self) -> bool:
        """True if the session is idle and not refused."""
        return self._open is None and self._refusal is None

    # --- appending ---

    def next_sequence(self, log: PartitionLog) -> int:
        """Return the sequence number of the next record in ``log``."""
        with self._changing():
            return self._writer(log).next_sequence

    def append(
        self,
        log: PartitionLog,
        value: Bytes | None,
        key: Bytes | None,
        headers: HeaderPairs,
        timestamp_ms: int | None,
        *,
        sequence: int | None = None,
        transaction: TransactionPart | None = None,
    ) -> int:
        """Append one record and return its offset. Raise InvalidTransactionStateError outside the open transaction."""
        with self._appending(log, transaction) as writer:
            return writer.append(
                value, key, headers, timestamp_ms, sequence=sequence, transactional=transaction is not None
            )

    def append_batch(
        self,
        log: PartitionLog,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None,
        headers: Sequence[HeaderPairs] | None,
        timestamps: Sequence[int | None] | None,
        sequence: int | None = None,
        transaction: TransactionPart | None = None,
    ) -> Sequence[int]:
        """Append many records and return their offsets. Raise as ``append`` does."""
        with self._appending(log, transaction) as writer:
            return writer.append_batch(
                values,
                keys=keys,
                headers=headers,
                timestamps=timestamps,
                sequence=sequence,
                transactional=transaction is not None,
            )

    # --- transactions ---

    def begin(self) -> TransactionPart:
        """Begin a transaction. Raise InvalidTransactionStateError if one is already open."""
        with self._changing():
            if self._open is not None:
                raise InvalidTransactionStateError(
                    f"{self} already has an open transaction: end it before beginning another", path=self._directory
                )
            self._open = TransactionPart()
            return self._open

    def commit(self, transaction: TransactionPart) -> None:
        """Write the commit markers. After a failed append, abort instead and raise InvalidTransactionStateError."""
        with self._changing():
            self._require_open(transaction)
            if transaction.failure is None:
                self._end(transaction, "committed", committed=True)
                return
            self._end(transaction, "aborted because an append failed", committed=False)
            raise InvalidTransactionStateError(
                f"the transaction of {self} was aborted and not committed, because one of its appends failed:"
                f" {transaction.failure}",
                path=self._directory,
            ) from transaction.failure

    def abort(self, transaction: TransactionPart) -> None:
        """Write the abort markers, unless it is already aborted. Raise InvalidTransactionStateError if committed."""
        self._guard.check()
        with self._lock:
            if transaction.outcome.startswith("aborted"):
                return
            self._require_usable()
            self._require_open(transaction)
            self._end(transaction, "aborted", committed=False)

    # --- ending ---

    def fence(self, epoch: int) -> None:
        """Abort the open transaction and refuse further calls, because a newer holder takes the id with ``epoch``."""
        with self._lock:
            fenced = InvalidProducerEpochError(
                f"{self} is fenced: a newer producer uses the id with epoch {epoch}", path=self._directory
            )
            self._stop("aborted by a newer producer", fenced, epoch)

    def close(self) -> None:
        """Abort the open transaction. The call is idempotent, and a no-op in a forked child."""
        if self._guard.is_owner:
            with self._lock:
                self._stop("aborted by closing", ClosedError(f"{self} is closed", path=self._directory))

    def release(self, log: PartitionLog) -> None:
        """Abort the open transaction in all its logs if ``log``, which will be closed, takes part in it."""
        with self._lock:
            writer = self._writers.pop(log, None)
            if self._open is not None and writer in self._open.writers:
                self._end(self._open, f"aborted by closing {log.directory.name}", committed=False)

    # --- inside ---

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._guard.check()
        with self._lock:
            self._require_usable()
            yield

    @contextmanager
    def _appending(self, log: PartitionLog, transaction: TransactionPart | None) -> Iterator[ProducerWriter]:
        with self._changing():
            if transaction is None and self._open is not None:
                raise InvalidTransactionStateError(
                    f"{self} has an open transaction: append through it until it ends", path=self._directory
                )
            if transaction is not None:
                self._require_open(transaction)
            writer = self._writer(log)
            if transaction is not None and writer not in transaction.writers:
                transaction.writers.append(writer)
            try:
                yield writer
            except BaseException as error:
                if transaction is not None and transaction.failure is None:
                    transaction.failure = error
                raise

    def _writer(self, log: PartitionLog) -> ProducerWriter:
        writer = self._writers.get(log)
        if writer is None:
            writer = self._writers[log] = ProducerWriter(log, self._clock, self.producer_id, self.epoch)
        return writer

    def _require_usable(self) -> None:
        if self._refusal is not None:
            raise self._refusal.__class__(self._refusal.message, path=self._refusal.path)

    def _require_open(self, transaction: TransactionPart) -> None:
        if transaction.outcome:
            raise InvalidTransactionStateError(
                f"the transaction of {self} is over: {transaction.outcome}", path=self._directory
            )

    def _stop(self, outcome: str, refusal: TidelogError, epoch: int | None = None) -> None:
        if self._refusal is None:
            self._refusal = refusal
        if self._open is not None:
            self._end(self._open, outcome, committed=False, epoch=epoch)

    def _end(self, transaction: TransactionPart, outcome: str, *, committed: bool, epoch: int | None = None) -> None:
        """Write a marker to each log. If one fails, the others are still written, and then the error is raised."""
        self._open, transaction.outcome = None, outcome
        failures: list[tuple[PartitionLog, TidelogError]] = []
        for writer in transaction.writers:
            try:
                writer.end_transaction(committed=committed, producer_epoch=epoch)
            except TidelogError as error:
                failures.append((writer.log, error))
        if not failures:
            return
        missing = ", ".join(log.directory.name for log, _ in failures)
        first = failures[0][1]
        message = (
            f"the transaction of {self} is {outcome}, but still open in {missing}: no marker could be written"
            f" ({first.message}). Open the directory again and reuse producer id {self.producer_id}: this aborts"
            " the transaction"
        )
        if self._refusal is None:
            self._refusal = InvalidTransactionStateError(message, path=self._directory)
        raise first.__class__(message, path=first.path, position=first.position, offset=first.offset) from first
