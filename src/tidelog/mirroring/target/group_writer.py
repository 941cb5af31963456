"""Committed offsets as records of a copy's own ``__consumer_offsets``, for a source that forbids reading its topic.

The topic has an id of its own. So if the source allows reading later, its topic counts as another one and takes the
place of this one. Offsets that did not change since the last write are not written again. Thread rule: the event loop
only, one write at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tidelog.mirroring.source.group_offsets import GroupOffset
from tidelog.mirroring.target.copied_metadata import CopiedTopic
from tidelog.mirroring.target.mirror_directory import MirrorDirectory
from tidelog.model import Record, TimestampType, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.record.build import build_batch
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata, offset_commit, offset_tombstone
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.runtime import Clock
from tidelog.runtime.executor import InThread
from tidelog.server.topics.internal_topics import partition_count, partition_of
from tidelog.storage.checkpoint import random_uuid
from tidelog.storage.producer import AppendOrigin

_RECORDS_A_BATCH: Final = 500
_EPOCH: Final = 0


class GroupWriter:
    def __init__(self, directory: MirrorDirectory, clock: Clock, in_thread: InThread) -> None:
        self._directory = directory
        self._clock = clock
        self._in_thread = in_thread
        self._written: dict[tuple[str, TopicPartition], GroupOffset] = {}

    async def write(self, offsets: Sequence[GroupOffset]) -> None:
        """Make the offsets those of the source. Raise StorageError if the disk fails."""
        wanted = {(one.group_id, one.partition): one for one in offsets}
        changed = [one for place, one in wanted.items() if self._written.get(place) != one]
        gone = [place for place in self._written if place not in wanted]
        if not changed and not gone:
            return
        await self._create_topic()
        now_ms = self._clock.now_ms()
        records = [(one.group_id, _record(one, now_ms)) for one in changed]
        records += [(group_id, offset_tombstone(group_id, partition)) for group_id, partition in gone]
        await self._in_thread(self._append, records, now_ms)
        self._written = wanted

    async def _create_topic(self) -> None:
        if GROUP_METADATA_TOPIC in self._directory.image.topics:
            return
        count = partition_count(GROUP_METADATA_TOPIC, self._directory.image, self._directory.config)
        topic = CopiedTopic(
            name=GROUP_METADATA_TOPIC,
            topic_id=random_uuid(),
            epochs=dict.fromkeys(range(count), _EPOCH),
            settings=None,
        )
        await self._directory.take_over([topic], deletes_old=False)

    def _append(self, records: Iterable[tuple[str, GroupRecord]], now_ms: int) -> None:
        """Append the records to the partitions of their groups, in a background thread."""
        count = len(self._directory.image.topics[GROUP_METADATA_TOPIC].partitions)
        parts: Mapping[int, list[Record]] = defaultdict(list)
        for group_id, record in records:
            made = Record(0, now_ms, TimestampType.CREATE, record.key_bytes(), record.value_bytes())
            parts[partition_of(group_id, count)].append(made)
        for number, part in parts.items():
            log = self._directory.log(TopicPartition(GROUP_METADATA_TOPIC, number))
            for start in range(0, len(part), _RECORDS_A_BATCH):
                batch = build_batch(part[start : start + _RECORDS_A_BATCH])
                log.append_as_leader(batch, leader_epoch=log.epochs.latest or _EPOCH, origin=AppendOrigin.COORDINATOR)


def _record(one: GroupOffset, now_ms: int) -> GroupRecord:
    committed = OffsetAndMetadata(
        offset=one.offset, leader_epoch=one.leader_epoch, metadata=one.metadata, commit_ms=now_ms
    )
    return offset_commit(one.group_id, one.partition, committed)
