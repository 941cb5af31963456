"""The journal as the groups' state machines see it: a protocol without code.

Each change follows one rule. Its records are applied to the state at once, and are appended, perhaps together with
other changes. ``done`` is called when all in-sync replicas have the records, and only then does the client get its
response. A change that cannot be appended is not applied, and ``done`` gets a coordinator's error code
(``COORDINATOR_NOT_AVAILABLE`` …). Changes complete in the sequence in which they were written.

Thread rule: the event loop only. Source: Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.storage.producer import NO_GUARD, VerificationGuard

Done = Callable[[ErrorCode], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """The producer of a transactional offset commit. ``guard`` shows that its records may be appended (KIP-890)."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard = NO_GUARD


class Journal(Protocol):
    """A journal for one partition of ``__consumer_offsets``, written by its coordinator."""

    def write(self, records: Sequence[GroupRecord], done: Done, *, apply: bool = True) -> None:
        """Write all records or none. ``apply`` False: the state has them already. No records: wait for earlier ones."""
        ...

    def write_transactional(self, records: Sequence[GroupRecord], producer: TransactionalProducer, done: Done) -> None:
        """Write one batch of a transaction. Its records are pending until the transaction's marker."""
        ...

    def flush(self) -> None:
        """Append the gathered changes. A crash may lose them until then."""
        ...
