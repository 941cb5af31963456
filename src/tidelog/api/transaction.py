"""Transactions: blocks whose records read_committed readers see all, or not at all (KIP-98, without a coordinator).

State of a block: made -> open (``with``) -> committed or aborted. A crash leaves it open in the logs. What is written,
and what that promises, stands at ``Transaction`` and ``DirectoryTransaction``. Thread rule: as Log's; several threads
may append to one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidelog.api.writing import Bytes, HeaderPairs
from tidelog.model import InvalidTransactionStateError, TidelogError

if TYPE_CHECKING:
    import pyarrow

    from tidelog.api.directory import Directory
    from tidelog.api.log import Log
    from tidelog.storage.manager.producers.producer_session import ProducerSession, TransactionPart
    from tidelog.storage.manager.producers.producer_sessions import ProducerSessions


class TransactionBlock:
    """What ``with`` does: begin; commit at the end of the block; abort on an exception.

    ``commit`` and ``abort`` end it earlier. After an append that raised, and whose error the block swallowed, it cannot
    be committed: it is aborted then, and InvalidTransactionStateError raised.
    """

    def __init__(self, pool: ProducerSessions | None = None, *, session: ProducerSession | None = None) -> None:
        """``session`` is the caller's, or one is borrowed from ``pool`` for the time of the block."""
        self._pool = pool
        self._session = session
        self._part: TransactionPart | None = None
        self._is_over = False

    @property
    def producer_id(self) -> int:
        """By which a transaction that a crash leaves open is found, and taken up."""
        return self._begun()[0].producer_id

    def commit(self) -> None:
        """Write the commit markers now. InvalidTransactionStateError where it cannot be; StorageError."""
        session, part = self._begun()
        self._is_over = True
        session.commit(part)

    def abort(self) -> None:
        """Write the abort markers now; nothing if it is aborted already."""
        session, part = self._begun()
        self._is_over = True
        session.abort(part)

    def __enter__(self) -> Self:
        if self._part is not None:
            raise InvalidTransactionStateError("a transaction is begun once: make another")
        if self._session is None:
            assert self._pool is not None
            self._session = self._pool.borrow()
        self._part = self._session.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._is_over:
                return
            if error is None:
                self.commit()
            else:
                self._abort_after(error)
        finally:
            if self._pool is not None and self._session is not None:
                self._pool.give_back(self._session)

    def _abort_after(self, error: BaseException) -> None:
        """The error of the block is the one to be told; why there is no marker goes with it."""
        try:
            self.abort()
        except TidelogError as failure:
            error.add_note(f"The transaction was not aborted: {failure}")

    def _begun(self) -> tuple[ProducerSession, TransactionPart]:
        if self._session is None or self._part is None:
            raise InvalidTransactionStateError("a transaction begins with its `with` block")
        return self._session, self._part


class Transaction(TransactionBlock):
    """A transaction in one log. Made by ``Log.transaction`` and ``Producer.transaction``.

    The records, and the marker that ends them, are what Kafka's producer and coordinator write. It is committed by that
    one marker or not at all, over crashes and power cuts. Not there is what needs a coordinator:

    - Nothing ends it by time. One that a crash left open holds read_committed readers back at its first record until
      its producer id is taken up: ``tidelog transactions`` shows it with its id, ``log.producer(producer_id)`` aborts.
    - Nothing is written to ``__transaction_state``, and consumed offsets, which belong to a broker, are no part of it.

    A commit is in the page cache, as appends are; ``log.flush()`` puts it on the disk.
    """

    def __init__(
        self, log: Log, pool: ProducerSessions | None = None, *, session: ProducerSession | None = None
    ) -> None:
        super().__init__(pool, session=session)
        self._log = log

    def append(
        self,
        value: Bytes | None,
        key: Bytes | None = None,
        headers: HeaderPairs = (),
        timestamp: int | None = None,
    ) -> int:
        """As ``Log.append``, in this transaction."""
        session, part = self._begun()
        return session.append(self._log._engine(), value, key, headers, timestamp, transaction=part)

    def append_batch(
        self,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
    ) -> Sequence[int]:
        """As ``Log.append_batch``, in this transaction; the offsets are a range unless other writers came between."""
        session, part = self._begun()
        return session.append_batch(
            self._log._engine(), values, keys=keys, headers=headers, timestamps=timestamps, transaction=part
        )


class DirectoryTransaction(TransactionBlock):
    """A transaction over logs of one directory. Made by ``Directory.transaction`` and ``DirectoryProducer``'s.

    In each log it is what ``Transaction`` is. The decision for all of them is written nowhere but in their markers,
    which go to one log after the other: a crash between two leaves it committed in the first ones and open in the
    others, and whoever takes the producer id up aborts it there. ``Directory.producer`` does so in every partition.
    """

    def __init__(
        self, directory: Directory, pool: ProducerSessions | None = None, *, session: ProducerSession | None = None
    ) -> None:
        super().__init__(pool, session=session)
        self._directory = directory

    def append(
        self,
        log: Log,
        value: Bytes | None,
        key: Bytes | None = None,
        headers: HeaderPairs = (),
        timestamp: int | None = None,
    ) -> int:
        """Append one record to ``log``, which this directory opened; its offset."""
        session, part = self._begun()
        return session.append(self._directory._engine(log), value, key, headers, timestamp, transaction=part)

    def append_batch(
        self,
        log: Log,
        values: Sequence[Bytes | None] | pyarrow.RecordBatch | pyarrow.Table,
        *,
        keys: Sequence[Bytes | None] | None = None,
        headers: Sequence[HeaderPairs] | None = None,
        timestamps: Sequence[int | None] | None = None,
    ) -> Sequence[int]:
        """Append many records to ``log``; their offsets, a range unless other writers came between."""
        session, part = self._begun()
        return session.append_batch(
            self._directory._engine(log), values, keys=keys, headers=headers, timestamps=timestamps, transaction=part
        )
