"""A replica of this process that follows a leader, as a fetcher uses it. Brokers and the mirror have classes of it."""

from __future__ import annotations

import uuid
from typing import Protocol, TypeVar

from tidelog.model import TopicPartition
from tidelog.replication.follower import Follower
from tidelog.replication.follower_commands import Commands
from tidelog.replication.follower_events import FetchedPartition, FetchPosition
from tidelog.storage.log.partition_log import PartitionLog


class FollowedReplica(Protocol):
    @property
    def partition(self) -> TopicPartition: ...

    @property
    def topic_id(self) -> uuid.UUID | None: ...

    @property
    def follower(self) -> Follower: ...

    @property
    def log(self) -> PartitionLog:
        """The log for the next commands. Raise TidelogError if it is offline."""
        ...

    @property
    def is_behind(self) -> bool:
        """True if the leader had records after the log end, as last seen."""
        ...

    @property
    def ready_at_ms(self) -> int | None:
        """The time at which a back-off ends, or None if nothing but an event makes it ready."""
        ...

    def wanted_position(self, now_ms: int, /) -> FetchPosition | None:
        """Return the position of the next fetch, or None if it needs none now."""
        ...

    def received(
        self, asked: FetchPosition, fetched: FetchedPartition | None, *, is_empty: bool, now_ms: int
    ) -> Commands:
        """Return the follower's commands for a response; ``fetched`` is None if it has no news of this partition.

        ``is_empty`` says that the complete response has no records.
        """
        ...


ReplicaT = TypeVar("ReplicaT", bound=FollowedReplica)
