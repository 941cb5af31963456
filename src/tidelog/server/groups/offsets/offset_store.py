"""The committed offsets of one shard, and those of open transactions, as the log has them. Pure.

======================  ==============================================================================================
record                  what it does
======================  ==============================================================================================
offset, no producer     counts at once
offset, of a producer   pending until the producer's transaction ends
tombstone               the offset goes, and so do pending ones for the same partition
marker: commit          each pending offset of the producer counts, unless one further on in the log does already
marker: abort           the pending offsets of the producer go
======================  ==============================================================================================

Changed only by ``replay``. Source: Kafka's ``OffsetMetadataManager``; KIP-98, KIP-447 (offsets that are stable).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """``leader_epoch`` is -1 where the commit did not say it; ``record_offset`` in the log."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = -1
    expire_ms: int | None = None
    """Commits before v5 of the API could say when they expire."""
    record_offset: int = -1
    topic_id: uuid.UUID | None = None
    """Of the topic that was committed for; None in records of Kafka 4.1 and before."""


Offsets = dict[TopicPartition, CommittedOffset]


class OffsetStore:
    """By group and partition."""

    def __init__(self) -> None:
        self._offsets: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}
        """Producer id -> group -> offsets."""

    def of_group(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._offsets.get(group_id, {})

    @property
    def group_ids(self) -> list[str]:
        return list(self._offsets)

    @property
    def count(self) -> int:
        """Committed offsets. Any thread may ask."""
        return sum(len(offsets) for offsets in list(self._offsets.values()))

    def has_pending(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        """Whether an open transaction has an offset of the group, or of one partition of it."""
        found = (groups[group_id] for groups in self._pending.values() if group_id in groups)
        return any(offsets if partition is None else partition in offsets for offsets in found)

    def known_partitions(self, group_id: str) -> list[TopicPartition]:
        """Those with an offset, be it a pending one."""
        partitions = dict.fromkeys(self.of_group(group_id))
        for groups in self._pending.values():
            partitions |= dict.fromkeys(groups.get(group_id, ()))
        return list(partitions)

    def of_topics(self, topics: Mapping[str, uuid.UUID]) -> Iterator[tuple[str, TopicPartition]]:
        """Yield group and partition of every offset, also pending, in these topics; each once.

        An offset that was committed for another topic of the same name is not theirs.
        """
        found: dict[tuple[str, TopicPartition], None] = {}
        for groups in (self._offsets, *self._pending.values()):
            for group_id, offsets in groups.items():
                for partition, committed in offsets.items():
                    topic_id = topics.get(partition.topic)
                    if topic_id is not None and committed.topic_id in (None, topic_id):
                        found[group_id, partition] = None
        yield from found

    # --- what records change ---

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        self._offsets.setdefault(group_id, {})[partition] = committed

    def put_pending(
        self, producer_id: int, group_id: str, partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Idempotent."""
        _remove(self._offsets, group_id, partition)
        for producer_id in list(self._pending):
            groups = self._pending[producer_id]
            _remove(groups, group_id, partition)
            if not groups:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The producer's marker is in the log. Nothing to do where it has no offsets here."""
        groups = self._pending.pop(producer_id, {})
        if not is_commit:
            return
        for group_id, offsets in groups.items():
            for partition, committed in offsets.items():
                current = self.of_group(group_id).get(partition)
                if current is None or current.record_offset < committed.record_offset:
                    self.put(group_id, partition, committed)


def _remove(groups: dict[str, Offsets], group_id: str, partition: TopicPartition) -> None:
    offsets = groups.get(group_id)
    if offsets is not None:
        offsets.pop(partition, None)
        if not offsets:
            del groups[group_id]
