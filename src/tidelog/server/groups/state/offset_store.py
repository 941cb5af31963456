"""The committed offsets of one shard, and the pending offsets of open transactions. Pure.

======================  ==============================================================================================
record                  effect
======================  ==============================================================================================
offset, no producer     committed at once
offset, of a producer   pending until the producer's transaction ends
tombstone               removes the offset and the pending offsets of the same partition
marker: commit          commits the producer's pending offsets, unless the log has a later committed record
marker: abort           removes the producer's pending offsets
======================  ==============================================================================================

Only ``replay`` changes the store. Source: Kafka's ``OffsetMetadataManager``; KIP-98, KIP-447 (stable offsets).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from tidelog.model import TopicPartition
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata

Offsets = dict[TopicPartition, OffsetAndMetadata]


class OffsetStore:
    """The offsets by group and partition."""

    def __init__(self) -> None:
        self._offsets: dict[str, Offsets] = {}
        self._pending: dict[int, dict[str, Offsets]] = {}
        """The pending offsets by producer id and group."""

    def of_group(self, group_id: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self._offsets.get(group_id, {})

    @property
    def group_ids(self) -> list[str]:
        return list(self._offsets)

    @property
    def count(self) -> int:
        """The number of committed offsets. Thread rule: any thread."""
        return sum(len(offsets) for offsets in list(self._offsets.values()))

    def has_pending(self, group_id: str, partition: TopicPartition | None = None) -> bool:
        """Return True if an open transaction has an offset of the group, or of this partition of the group."""
        found = (groups[group_id] for groups in self._pending.values() if group_id in groups)
        return any(offsets if partition is None else partition in offsets for offsets in found)

    def known_partitions(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions with a committed or pending offset."""
        partitions = dict.fromkeys(self.of_group(group_id))
        for groups in self._pending.values():
            partitions |= dict.fromkeys(groups.get(group_id, ()))
        return list(partitions)

    def of_topics(self, topics: Mapping[str, uuid.UUID]) -> Iterator[tuple[str, TopicPartition]]:
        """Yield group and partition of every committed or pending offset of these topics, once each.

        An offset that was committed for another topic with the same name is skipped.
        """
        found: dict[tuple[str, TopicPartition], None] = {}
        for groups in (self._offsets, *self._pending.values()):
            for group_id, offsets in groups.items():
                for partition, committed in offsets.items():
                    topic_id = topics.get(partition.topic)
                    if topic_id is not None and committed.topic_id in (None, topic_id):
                        found[group_id, partition] = None
        yield from found

    # --- changes by records ---

    def put(self, group_id: str, partition: TopicPartition, committed: OffsetAndMetadata) -> None:
        self._offsets.setdefault(group_id, {})[partition] = committed

    def put_pending(
        self, producer_id: int, group_id: str, partition: TopicPartition, committed: OffsetAndMetadata
    ) -> None:
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {})[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Remove the committed and pending offsets of a partition. Idempotent."""
        _remove(self._offsets, group_id, partition)
        for producer_id in list(self._pending):
            groups = self._pending[producer_id]
            _remove(groups, group_id, partition)
            if not groups:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the producer's marker, which is in the log. No-op if the producer has no offsets here."""
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
