"""The holders of producer ids in the log directories that this process writes: new and reused ids.

New ids begin at 2^52. Kafka's controller allocates its ids from 0, so a cluster that later uses the directory never
allocates an id of tidelog's. (Two holders of an id with the same epoch would look like duplicates of each other.) The
number is still exact in JSON. A new id is above every id that any partition knows.

Reusing an id gives it the next epoch and aborts its open transactions in every reachable partition. It fences the
previous holder if that is in this process. No other process can hold it, since the directory is locked.

Nothing is stored except the producer state of the logs. An id without any append may be allocated again. Thread rule:
any thread. Lock order: this one, a session's, a log's. Source: Kafka's ``ProducerIdManager``,
``TransactionCoordinator.handleInitProducerId`` (KIP-98, KIP-360).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tidelog.model import ClosedError, InvalidProducerEpochError, TidelogError, TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.fs import ForkGuard
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.writers.producer_writer import MAX_PRODUCER_EPOCH, ProducerWriter
from tidelog.storage.manager.producers.producer_session import ProducerSession
from tidelog.storage.producer import ProducerEntry

FIRST_PRODUCER_ID = 2**52
_MAX_PRODUCER_ID = 2**63 - 1

_log = logging.getLogger(__name__)


class ProducerDirectory(Protocol):
    """A log directory that this process owns."""

    @property
    def path(self) -> Path: ...

    def producers(
        self, only: TopicPartition | None = None
    ) -> Iterator[tuple[TopicPartition, Mapping[int, ProducerEntry]]]: ...


class ProducerSessions:
    """``homes`` are the log directories. ``open_log`` returns a partition's log, and opens it for writing if needed.

    ``only`` is the single partition that may be appended to. The others are then read only for new ids.
    """

    def __init__(
        self,
        homes: Sequence[ProducerDirectory],
        open_log: Callable[[TopicPartition], PartitionLog],
        *,
        clock: Clock,
        only: TopicPartition | None = None,
    ) -> None:
        self._homes = tuple(homes)
        self._open_log = open_log
        self._clock = clock
        self._only = only
        self._path = self._homes[0].path
        self._guard = ForkGuard(self._path)
        self._lock = threading.Lock()
        self._closed = False
        self._last_id: int | None = None
        self._sessions: dict[int, ProducerSession] = {}
        self._idle: list[ProducerSession] = []

    def acquire(self, producer_id: int | None = None, epoch: int | None = None) -> ProducerSession:
        """Return a session with a new id, or ``reuse`` the given id. Raise ValueError for an epoch without an id."""
        if producer_id is not None:
            return self.reuse(producer_id, epoch)
        if epoch is not None:
            raise ValueError("an epoch needs a producer id")
        with self._changing():
            return self._new()

    def reuse(self, producer_id: int, epoch: int | None = None) -> ProducerSession:
        """Return a session for an id, known or not. ``epoch`` None means the next epoch.

        With the last epoch itself, the sequence numbers continue. Raise InvalidProducerEpochError for an older epoch,
        or if no epoch is left.
        """
        if not 0 <= producer_id <= _MAX_PRODUCER_ID:
            raise ValueError(f"a producer id is a number from 0 to 2^63 - 1, not {producer_id}")
        if epoch is not None and not 0 <= epoch <= MAX_PRODUCER_EPOCH:
            raise ValueError(f"a producer epoch is a number from 0 to {MAX_PRODUCER_EPOCH}, not {epoch}")
        with self._changing():
            before = self._sessions.get(producer_id)
            known = self._known_as(producer_id)
            epochs = [entry.producer_epoch for entry in known.values()]
            last = max(epochs if before is None else [*epochs, before.epoch], default=-1)
            epoch = self._next_epoch(producer_id, last) if epoch is None else epoch
            if epoch < last:
                raise InvalidProducerEpochError(
                    f"producer {producer_id} already has epoch {last}: epoch {epoch} is fenced", path=self._path
                )
            if before is not None:
                before.fence(epoch)
            for partition, entry in known.items():
                if entry.transaction_first_offset is not None:
                    left = ProducerWriter(self._open_log(partition), self._clock, producer_id, epoch)
                    left.end_transaction(committed=False)
            return self._hold(producer_id, epoch)

    def check_out(self) -> ProducerSession:
        """Return an idle session with its own id. ``check_in`` returns it."""
        with self._changing():
            while self._idle:
                session = self._idle.pop()
                if session.is_usable:
                    return session
            return self._new()

    def check_in(self, session: ProducerSession) -> None:
        """Make a borrowed session available again, unless it is no longer usable."""
        if self._guard.is_owner and session.is_usable:
            with self._lock:
                self._idle.append(session)

    def release(self, log: PartitionLog) -> None:
        """Abort the transactions in ``log`` before it is closed. After a logged failure, the id's next holder aborts.

        The call is a no-op after ``close``, and in a forked child.
        """
        if self._closed or not self._guard.is_owner:
            return
        with self._lock:
            for session in self._sessions.values():
                try:
                    session.release(log)
                except TidelogError as error:
                    _log.warning("%s", error)

    def close(self) -> None:
        """Abort all open transactions and refuse further calls. The call is idempotent; see ``release``."""
        if self._closed or not self._guard.is_owner:
            return
        with self._lock:
            self._closed = True
            for session in self._sessions.values():
                try:
                    session.close()
                except TidelogError as error:
                    _log.warning("%s", error)

    # --- inside ---

    def _changing(self) -> threading.Lock:
        self._guard.check()
        if self._closed:
            raise ClosedError("the directory is closed", path=self._path)
        return self._lock

    def _new(self) -> ProducerSession:
        if self._last_id is None:
            ids = (producer_id for home in self._homes for _, known in home.producers() for producer_id in list(known))
            self._last_id = max(ids, default=-1)
        taken = max([self._last_id, FIRST_PRODUCER_ID - 1, *self._sessions])
        if taken == _MAX_PRODUCER_ID:
            raise InvalidProducerEpochError("the largest producer id is in use: pass an explicit id", path=self._path)
        self._last_id = taken + 1
        return self._hold(self._last_id, 0)

    def _hold(self, producer_id: int, epoch: int) -> ProducerSession:
        session = ProducerSession(producer_id, epoch, clock=self._clock, directory=self._path)
        self._sessions[producer_id] = session
        return session

    def _known_as(self, producer_id: int) -> dict[TopicPartition, ProducerEntry]:
        """Return each reachable partition's entry of a producer. The entry of an open partition is live."""
        return {
            partition: known[producer_id]
            for home in self._homes
            for partition, known in home.producers(self._only)
            if producer_id in known
        }

    def _next_epoch(self, producer_id: int, last: int) -> int:
        if last < MAX_PRODUCER_EPOCH:
            return last + 1
        raise InvalidProducerEpochError(
            f"producer {producer_id} has used its last epoch: use a new id, or continue with epoch={last}",
            path=self._path,
        )
