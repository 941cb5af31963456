"""The interfaces of the groups' state machines to the journal and the topics. Protocols without code.

Each change follows one rule. Its records are applied to the state at once, and are appended, perhaps together with
other changes. ``done`` is called when all in-sync replicas have the records, and only then does the client get its
response. A change that cannot be appended is not applied, and ``done`` gets a coordinator's error code
(``COORDINATOR_NOT_AVAILABLE`` …). Changes complete in the sequence in which they were written.

Thread rule: the event loop only. Source: Kafka's ``CoordinatorRuntime``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidelog.protocol.errors import ErrorCode
from tidelog.storage.producer import NO_GUARD, VerificationGuard

if TYPE_CHECKING:
    from tidelog.server.groups.log.group_record import GroupRecord

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


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic's facts for assignments and hashes. ``racks`` has the known racks of each partition's replicas."""

    id: uuid.UUID
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


class Topics(Protocol):
    """The current topics of the cluster."""

    @property
    def version(self) -> int:
        """The version of the metadata, which grows with every change."""
        ...

    @property
    def last_creation_version(self) -> int:
        """The version of the last change that created topics."""
        ...

    @property
    def names(self) -> Collection[str]: ...

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None: ...
