"""Producers: appends under a producer id, so that one that is repeated is in the log once (KIP-98's idempotence).

Thin: they check that the log is open, and hand on to the session that holds the id. State: open, then closed, or fenced
off by a newer holder of the id. Thread rule: as Log's; any thread may call anything, appends of one producer come one
after the other, and in a forked child every call raises ForkError.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog.api.transaction import DirectoryTransaction, Transaction
from tidelog.api.writing import Bytes, HeaderPairs

if TYPE_CHECKING:
    import pyarrow

    from tidelog.api.directory import Directory
    from tidelog.api.log import Log
    from tidelog.storage.manager.producers.producer_session import ProducerSession


class HeldProducerId:
    """A producer id and epoch, held until closed; a context manager."""

    def __init__(self, session: ProducerSession) -> None:
        self._session = session

    @property
    def producer_id(self) -> int:
        return self._session.producer_id

    @property
    def epoch(self) -> int:
        """Of the producer id; each later holder's is higher."""
        return self._session.epoch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.producer_id}, epoch {self.epoch}>"

    def close(self) -> None:
        """Idempotent. An open transaction is aborted; the log stays open."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Producer(HeldProducerId):
    """An idempotent producer of one log. Made by ``Log.producer``.

    Every record has a sequence, counted from 0 in each epoch. When an append raises a StorageError, or the process dies
    in it, it is not known whether its records are in the log. A caller who has to be sure notes ``next_sequence``
    before, and goes on in one of two ways, with this producer or, after opening the log again, here or in another
    process, with ``log.producer(producer_id, epoch=epoch)``:

    - Repeat it with ``sequence=`` that number. If it is in the log, the answer is its first offsets. Known again are a
      producer's last five batches (after opening the log again the last one), each whole; a list or table of less than
      a megabyte is one batch. OutOfOrderSequenceError for what is older or cut otherwise.
    - Ask for ``next_sequence`` again: the difference is how many of the records are in the log. A producer that loads a
      file, and whose sequences are its line numbers, goes on with line ``next_sequence``.

    After 2^31 - 1 comes 0.
    """

    def __init__(self, log: Log, session: ProducerSession) -> None:
        super().__init__(session)
        self._log = log

    @property
    def next_sequence(self) -> int:
        """Of the next record, as the log knows it."""
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
        """As ``Log.append``; ``sequence`` repeats an earlier append. Nothing is appended when it raises.

        InvalidProducerEpochError for a fenced producer, OutOfOrderSequenceError for a sequence that does not fit,
        InvalidTransactionStateError while a transaction of the producer is open; errors of ``Log.append``.
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
        """As ``Log.append_batch``; errors as ``append``. The offsets are a range unless other writers came between.

        As many records as fit go into one batch; if several are needed and one is refused, those before it stay, and
        ``next_sequence`` counts them.
        """
        return self._session.append_batch(
            self._log._engine(), values, keys=keys, headers=headers, timestamps=timestamps, sequence=sequence
        )

    def transaction(self) -> Transaction:
        """A transaction of this producer in its log; one at a time."""
        return Transaction(self._log, session=self._session)


class DirectoryProducer(HeldProducerId):
    """An idempotent producer of several logs of one directory. Made by ``Directory.producer``.

    Everything is said of ``Producer``; each log counts the producer's sequences by itself.
    """

    def __init__(self, directory: Directory, session: ProducerSession) -> None:
        super().__init__(session)
        self._directory = directory

    def next_sequence(self, log: Log) -> int:
        """Of the next record in ``log``, as that log knows it."""
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
        """Append one record to ``log``, which this directory opened; its offset. See ``Producer.append``."""
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
        """Append many records to ``log``; their offsets. See ``Producer.append_batch``."""
        engine = self._directory._engine(log)
        return self._session.append_batch(
            engine, values, keys=keys, headers=headers, timestamps=timestamps, sequence=sequence
        )

    def transaction(self) -> DirectoryTransaction:
        """A transaction of this producer over logs of the directory; one at a time."""
        return DirectoryTransaction(self._directory, session=self._session)
