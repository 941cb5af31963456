"""A fetch session (KIP-227): the partitions that a client need not name in every request.

A request of the session names only the partitions that it adds, changes or forgets. The response includes a partition
if one of these is true:

- It has records, an error, a diverging epoch or a preferred replica.
- Its high watermark or its log start offset differs from the last response.
- Its last result was an error: then all its values count as changed.

A partition whose records were sent moves to the end, so that full responses do not starve the partitions behind it. The
epoch counts the requests. After 2**31 - 1 it starts again at 1.
Thread rule: the event loop only. Source: Kafka's ``FetchSession``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model import LogOffsetMetadata
from tidelog.protocol.fetch import NO_DIVERGENCE, FetchPartition, FetchRequest, PartitionData
from tidelog.server.replicas.partition import Partition

INITIAL_EPOCH: Final = 0
"""The epoch of a request that asks for a new session."""
FINAL_EPOCH: Final = -1
"""The epoch of a request that wants no session and ends the session that it names."""
NO_SESSION: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

PartitionKey = tuple[UUID | None, str, int]
"""The topic's id (v13 and later), the topic's name (before v13), and the partition's number."""


def next_epoch(epoch: int) -> int:
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class CachedPartition:
    """A partition as the client wants it, with the offsets of its last response."""

    __slots__ = ("high_watermark", "log_start_offset", "partition", "topic", "topic_id", "wanted")

    def __init__(self, topic: str, topic_id: UUID | None, wanted: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = wanted.partition
        self.wanted = wanted
        self.high_watermark = -1
        self.log_start_offset = -1

    @property
    def key(self) -> PartitionKey:
        return (self.topic_id, self.topic, self.partition)

    def record_sent(self, data: PartitionData) -> None:
        """Record that a full response sends ``data`` to the client."""
        self.high_watermark, self.log_start_offset = data.high_watermark, data.log_start_offset

    def update_and_check_changed(self, data: PartitionData) -> bool:
        """Return True if ``data`` belongs in an incremental response, and record its offsets as sent."""
        known = (self.high_watermark, self.log_start_offset)
        is_news = known != (data.high_watermark, data.log_start_offset)
        self.record_sent(data)
        if data.error_code:
            self.high_watermark = -1
        has_redirect = data.preferred_read_replica >= 0
        has_content = bool(data.error_code or len(data.records) or data.diverging_epoch != NO_DIVERGENCE)
        return is_news or has_redirect or has_content


class PartitionResult(NamedTuple):
    """The result of one partition. ``partition`` and ``start`` are None if the read failed or was not authorized: the
    fetch does not wait for it."""

    cached: CachedPartition
    data: PartitionData
    partition: Partition | None = None
    start: LogOffsetMetadata | None = None


class FetchSession:
    """The session of a consumer, or of a follower if ``is_privileged``."""

    __slots__ = (
        "created_ms",
        "epoch",
        "id",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "size_when_used",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, CachedPartition],
        *,
        is_privileged: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = self.last_used_ms = now_ms
        self.size_when_used = len(partitions)

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that the request adds, changes and forgets."""
        for key, cached in cached_partitions(request).items():
            known = self.partitions.setdefault(key, cached)
            known.wanted = cached.wanted
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self.partitions.pop((topic.topic_id, topic.topic, number), None)

    def select_changed(self, results: Iterable[PartitionResult]) -> list[PartitionResult]:
        """Return the results that belong in the incremental response."""
        selected = []
        for result in results:
            cached = result.cached
            if cached.update_and_check_changed(result.data):
                selected.append(result)
                if result.data.records and self.partitions.pop(cached.key, None) is not None:
                    self.partitions[cached.key] = cached
        return selected


def cached_partitions(request: FetchRequest) -> dict[PartitionKey, CachedPartition]:
    """Return the partitions that a request names. The last entry counts if it names a partition twice."""
    cached = (
        CachedPartition(topic.topic, topic.topic_id, wanted) for topic in request.topics for wanted in topic.partitions
    )
    return {one.key: one for one in cached}
