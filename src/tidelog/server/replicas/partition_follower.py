"""A partition of this broker as a fetcher sees it. Thread rule: the event loop only."""

from __future__ import annotations

import uuid
from typing import Final

from tidelog.model import TopicPartition
from tidelog.replication.follower import Follower, Phase
from tidelog.replication.follower_commands import Commands
from tidelog.replication.follower_events import FetchedPartition, FetchPosition
from tidelog.server.replicas.partition import Partition
from tidelog.server.replicas.replication_quota import ReplicationQuota
from tidelog.storage.log.partition_log import PartitionLog

_QUOTA_CHECK_MS: Final = 100
"""The time after which a throttled replica looks at its quota again."""


class PartitionFollower:
    def __init__(self, partition: Partition, quota: ReplicationQuota) -> None:
        self.served = partition
        self._quota = quota
        self._throttled_until_ms: int | None = None
        self._had_records = False

    @property
    def partition(self) -> TopicPartition:
        return self.served.topic_partition

    @property
    def topic_id(self) -> uuid.UUID:
        return self.served.topic_id

    @property
    def follower(self) -> Follower:
        return self.served.follower

    @property
    def log(self) -> PartitionLog:
        """The log in use now. Raise ApiError as ``Partition.log`` does."""
        return self.served.log

    @property
    def lag(self) -> int:
        """The records up to the leader's high watermark that are missing here, or 0 if that is not known."""
        return self.follower.lag or 0

    @property
    def is_behind(self) -> bool:
        """True if the last response had records: more are likely to follow."""
        return self._had_records

    @property
    def ready_at_ms(self) -> int | None:
        if self._throttled_until_ms is not None:
            return self._throttled_until_ms
        return self.follower.ready_at_ms if self.follower.phase is Phase.DELAYED else None

    @property
    def is_throttled(self) -> bool:
        """True if this replica is throttled, whether or not the quota is exceeded."""
        return self._quota.is_throttled(self.partition)

    def wanted_position(self, now_ms: int) -> FetchPosition | None:
        """Return the position of the next fetch. A throttled replica that lacks records waits for its quota."""
        is_in_sync = self.follower.lag == 0
        must_wait = not is_in_sync and self.is_throttled and self._quota.is_exceeded
        self._throttled_until_ms = now_ms + _QUOTA_CHECK_MS if must_wait else None
        return None if must_wait else self.follower.poll(now_ms)

    def received(
        self, asked: FetchPosition, fetched: FetchedPartition | None, *, is_empty: bool, now_ms: int
    ) -> Commands:
        size = 0 if fetched is None or fetched.records is None else memoryview(fetched.records).nbytes
        self._had_records = size > 0
        if size and self.is_throttled:
            self._quota.record(size)
        return () if fetched is None else self.follower.fetched(asked, fetched, now_ms)
