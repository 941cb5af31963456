"""What the state machines of groups see of the world: a log to write to, topics, time. Protocols, no code of their own.

The rule of every change: its records are applied to the state at once, and appended, maybe together with others';
``done`` is called when all in-sync replicas have them, and only then does the client hear of it. A change that cannot
be appended is not applied, and ``done`` is told why, in the words of a coordinator (``COORDINATOR_NOT_AVAILABLE`` …).
Two changes are answered in the order they were written.

Called by: the state machines; tests have a journal of their own. Thread rule: the loop's thread.
Source: Kafka's ``CoordinatorRuntime``.
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
    """Who commits offsets as part of a transaction; ``guard``: that they may be appended (KIP-890)."""

    producer_id: int
    producer_epoch: int
    guard: VerificationGuard = NO_GUARD


class Journal(Protocol):
    """One partition of ``__consumer_offsets``, written by its coordinator."""

    def write(self, records: Sequence[GroupRecord], done: Done, *, apply: bool = True) -> None:
        """Write all or nothing. ``apply`` False: the state has it already. No records: wait for those before."""
        ...

    def write_transactional(self, records: Sequence[GroupRecord], producer: TransactionalProducer, done: Done) -> None:
        """One batch of a transaction; its records are pending until the transaction's marker."""
        ...

    def flush(self) -> None:
        """Append what has been written so far: until then a crash may lose it."""
        ...


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """What assignments and hashes need of a topic; ``racks`` of each partition's replicas, as far as they have one."""

    id: uuid.UUID
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()


class Topics(Protocol):
    """The topics of the cluster as they are now."""

    @property
    def version(self) -> int:
        """Of the metadata: grows with every change."""
        ...

    @property
    def made_version(self) -> int:
        """Of the last change that made topics."""
        ...

    @property
    def names(self) -> Collection[str]: ...

    def by_name(self, name: str) -> TopicFacts | None: ...

    def by_id(self, topic_id: uuid.UUID) -> TopicFacts | None: ...
