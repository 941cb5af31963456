"""A fetch session (KIP-227): what one client follows, so that it need not say it with every request.

Each request of the session names only partitions that it wants otherwise, and each answer only those that have news:

==================================  ================================================================================
a partition is in the answer        because
==================================  ================================================================================
always                              it has records, an error, or an epoch at which the logs diverge
when it was not before              its high watermark or log start offset has changed
after an error                      as if everything about it were new
==================================  ================================================================================

A partition whose records were sent goes to the end, so that a full answer does not starve those behind it. The epoch
counts the requests; it comes back to 1 after the largest 32-bit number.
Called by: session_cache, fetch_context. Thread rule: the loop's. Source: Kafka's ``FetchSession``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from tidelog.protocol.fetch import NO_DIVERGENCE, FetchPartition, FetchRequest, PartitionData

INITIAL_EPOCH: Final = 0
"""Of a request that wants a new session."""
FINAL_EPOCH: Final = -1
"""Of a request that wants none, and ends the one it names."""
NO_SESSION: Final = 0
_MAX_EPOCH: Final = 2**31 - 1

PartitionKey = tuple[UUID | None, str, int]
"""The topic's id from v13 on, its name before, and the number."""


def next_epoch(epoch: int) -> int:
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class FollowedPartition:
    """One partition as it is wanted, and as the client was last told of it."""

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

    def was_told(self, data: PartitionData) -> None:
        """The client has got ``data``, in a full answer."""
        self.high_watermark, self.log_start_offset = data.high_watermark, data.log_start_offset

    def has_news(self, data: PartitionData) -> bool:
        """Whether ``data`` belongs in an incremental answer; it counts as told then."""
        known = (self.high_watermark, self.log_start_offset)
        is_news = known != (data.high_watermark, data.log_start_offset)
        self.was_told(data)
        if data.error_code:
            self.high_watermark = -1
        return bool(is_news or data.error_code or data.records_size or data.diverging_epoch != NO_DIVERGENCE)


class FetchSession:
    """``is_privileged``: a follower's."""

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
        partitions: dict[PartitionKey, FollowedPartition],
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
        """Take over what the request adds, changes and forgets."""
        for key, followed in followed_in(request).items():
            known = self.partitions.setdefault(key, followed)
            known.wanted = followed.wanted
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self.partitions.pop((topic.topic_id, topic.topic, number), None)

    def select_news(
        self, results: Iterable[tuple[FollowedPartition, PartitionData]]
    ) -> list[tuple[FollowedPartition, PartitionData]]:
        """What of the results belongs in the answer."""
        selected = []
        for followed, data in results:
            if followed.has_news(data):
                selected.append((followed, data))
                if data.records_size and self.partitions.pop(followed.key, None) is not None:
                    self.partitions[followed.key] = followed
        return selected


def followed_in(request: FetchRequest) -> dict[PartitionKey, FollowedPartition]:
    """The partitions that a request names; the last word counts where it names one twice."""
    followed = (
        FollowedPartition(topic.topic, topic.topic_id, wanted)
        for topic in request.topics
        for wanted in topic.partitions
    )
    return {one.key: one for one in followed}
