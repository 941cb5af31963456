"""Transactions: records that read_committed readers see all or not at all (KIP-98, no coordinator).

A block is made, then open (in ``with``), then committed or aborted. A crash leaves it open in the logs. ``Transaction``
and ``DirectoryTransaction`` have the guarantees. Thread rule: any thread. Several threads may append to one
transaction.
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
    """A ``with`` block that begins a transaction, commits it at its end and aborts it on an exception.

    ``commit`` and ``abort`` end it earlier. After a failed append whose error the block caught, it cannot commit: it is
    aborted, and InvalidTransactionStateError is raised.
    """

    def __init__(self, pool: ProducerSessions | None = None, *, session: ProducerSession | None = None) -> None:
        """``session`` is the caller's. If it is None, the block borrows a session from ``pool``."""
        self._pool = pool
        self._session = session
        self._part: TransactionPart | None = None
        self._is_over = False

    @property
    def producer_id(self) -> int:
        """The id by which a transaction that a crash left open is found and taken over."""
        return self._begun()[0].producer_id

    def commit(self) -> None:
        """Write the commit markers now. Raise InvalidTransactionStateError if it cannot commit, or StorageError."""
        session, part = self._begun()
        self._is_over = True
        session.commit(part)

    def abort(self) -> None:
        """Write the abort markers now. A no-op if it is already aborted."""
        session, part = self._begun()
        self._is_over = True
        session.abort(part)

    def __enter__(self) -> Self:
        if self._part is not None:
            raise InvalidTransactionStateError("a transaction begins once: create another")
        if self._session is None:
            assert self._pool is not None
            self._session = self._pool.check_out()
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
                self._pool.check_in(self._session)

    def _abort_after(self, error: BaseException) -> None:
        """Abort after the block's error, which stays the raised one. A failure to abort is added as a note."""
        try:
            self.abort()
        except TidelogError as failure:
            error.add_note(f"The transaction was not aborted: {failure}")

    def _begun(self) -> tuple[ProducerSession, TransactionPart]:
        if self._session is None or self._part is None:
            raise InvalidTransactionStateError("a transaction begins with its `with` block")
        return self._session, self._part


class Transaction(TransactionBlock):
    """A transaction in one log, from ``Log.transaction`` or ``Producer.transaction``.

    Its records and its end marker are the same as those of Kafka's producer and coordinator. That one marker commits
    the transaction, so it is atomic over crashes and power loss. Features that need a coordinator are missing:

    - It has no timeout. After a crash, read_committed readers stop at its first record until its producer id is taken
      over. ``tidelog transactions`` shows it with its id, and ``log.producer(producer_id)`` aborts it.
    - It writes nothing to ``__transaction_state``. It cannot contain consumed offsets, which belong to a broker.

    A commit is in the page cache, like appends; ``log.flush()`` writes it to disk.
    """

    def __init__(
        self, log: Log, pool: ProducerSessions | None = None, *, session: ProducerSession | None = None
    ) -> None:
        super().__init__(pool, session=session)
        self._log = log

    def append(
        self, value: Bytes | None, key: Bytes | None = None, headers: HeaderPairs = (), timestamp: int | None = None
    ) -> int:
        """Append like ``Log.append``, in this transaction."""
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
        """Append like ``Log.append_batch``. The offsets are a range unless other writers appended in between."""
        session, part = self._begun()
        return session.append_batch(
            self._log._engine(), values, keys=keys, headers=headers, timestamps=timestamps, transaction=part
        )


class DirectoryTransaction(TransactionBlock):
    """A transaction over logs of one directory, from ``Directory.transaction`` or its producer.

    In each log it has the guarantees of ``Transaction``. Only the markers record the decision, and they go to one log
    after the other. A crash between two leaves it committed in the first logs and open in the others, where taking over
    the producer id aborts it. ``Directory.producer`` does so in every partition.
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
        """Append one record to ``log``, which this directory opened, and return its offset."""
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
        """Append many records to ``log`` and return their offsets, a range unless other writers appended in between."""
        session, part = self._begun()
        return session.append_batch(
            self._directory._engine(log), values, keys=keys, headers=headers, timestamps=timestamps, transaction=part
        )
