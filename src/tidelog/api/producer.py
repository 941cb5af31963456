"""Producers: appends under a producer id, so that a repeated append is in the log once (KIP-98).

They check that the log is open and call the session that holds the id. A producer is open, then closed or fenced by a
newer holder of the id. Thread rule: any thread. The appends of a producer are serialized. In a forked child every call
raises ForkError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from tidelog.api.transaction import DirectoryTransaction, Transaction
from tidelog.api.writing import Bytes, HeaderPairs

if TYPE_CHECKING:
    import pyarrow

    from tidelog.api.directory import Directory
    from tidelog.api.log import Log
    from tidelog.storage.manager.producers.producer_session import ProducerSession


class ProducerHandle:
    """A producer id and epoch, held until closed. It is a context manager."""

    def __init__(self, session: ProducerSession) -> None:
        self._session = session

    @property
    def producer_id(self) -> int:
        return self._session.producer_id

    @property
    def epoch(self) -> int:
        """The epoch of the producer id. Each later holder has a higher one."""
        return self._session.epoch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.producer_id}, epoch {self.epoch}>"

    def close(self) -> None:
        """Close the producer and abort its open transaction. The log stays open. Idempotent."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer(ProducerHandle):
    """An idempotent producer of one log, from ``Log.producer``.

    Every record has a sequence, counted from 0 in each epoch. If an append raises a StorageError, or the process dies
    in it, the records may or may not be in the log. To be sure, note ``next_sequence`` before the append. Continue with
    this producer or with ``log.producer(producer_id, epoch=epoch)``, also after a reopen in another process, in one of
    two ways:

    - Repeat the append with ``sequence=`` that number. If the records are in the log, it returns their first offsets.
      The log knows a producer's last five batches, and after a reopen only the last one. They must be repeated
      unchanged; a list or table of less than a megabyte is one batch. An older or different batch raises
      OutOfOrderSequenceError.
    - Read ``next_sequence`` again: the difference is the number of records in the log. A producer that loads a file
      with its line numbers as sequences continues with line ``next_sequence``.

    The sequence after 2^31 - 1 is 0.
    """

    def __init__(self, log: Log, session: ProducerSession) -> None:
        super().__init__(session)
        self._log = log

    @property
    def next_sequence(self) -> int:
        """The sequence of the next record, as the log knows it."""
        return self._session.next_sequence(self._log._engine())

    def append(
        self,
        value: Bytes | None,
        key: Bytes | None = None,
        headers: HeaderPairs = (),
        timestamp: int | None = None,
        *,
        sequence: int | None = None,
    ) -> int:
        """Append like ``Log.append``; ``sequence`` repeats an earlier append. Nothing is appended if it raises.

        Raise InvalidProducerEpochError for a fenced producer, OutOfOrderSequenceError for a sequence that does not fit,
        and InvalidTransactionStateError while the producer has an open transaction.
        """
        return self._session.append(self._log._engine(), value, key, headers, timestamp, sequence=sequence)

    def append_batch(
        self,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
        sequence: int | None = None,
    ) -> Sequence[int]:
        """Append like ``Log.append_batch``, with the errors of ``append``.

        The offsets are a range unless other writers appended in between. Each batch takes as many records as fit. If
        one of several batches is refused, those before it stay, and ``next_sequence`` counts them.
        """
        return self._session.append_batch(
            self._log._engine(), values, keys=keys, headers=headers, timestamps=timestamps, sequence=sequence
        )

    def transaction(self) -> Transaction:
        """Return a transaction of this producer in its log; one at a time."""
        return Transaction(self._log, session=self._session)


class DirectoryProducer(ProducerHandle):
    """An idempotent producer of several logs of one directory, from ``Directory.producer``.

    ``Producer`` has the contract. Each log counts the producer's sequences by itself.
    """

    def __init__(self, directory: Directory, session: ProducerSession) -> None:
        super().__init__(session)
        self._directory = directory

    def next_sequence(self, log: Log) -> int:
        """Return the sequence of the next record in ``log``, as that log knows it."""
        return self._session.next_sequence(self._directory._engine(log))

    def append(
        self,
        log: Log,
        value: Bytes | None,
        key: Bytes | None = None,
        headers: HeaderPairs = (),
        timestamp: int | None = None,
        *,
        sequence: int | None = None,
    ) -> int:
        """Append one record to ``log``, which this directory opened, and return its offset. See ``Producer.append``."""
        engine = self._directory._engine(log)
        return self._session.append(engine, value, key, headers, timestamp, sequence=sequence)

    def append_batch(
        self,
        log: Log,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
        sequence: int | None = None,
    ) -> Sequence[int]:
        """Append many records to ``log`` and return their offsets. See ``Producer.append_batch``."""
        engine = self._directory._engine(log)
        return self._session.append_batch(
            engine, values, keys=keys, headers=headers, timestamps=timestamps, sequence=sequence
        )

    def transaction(self) -> DirectoryTransaction:
        """Return a transaction of this producer over logs of the directory; one at a time."""
        return DirectoryTransaction(self._directory, session=self._session)
