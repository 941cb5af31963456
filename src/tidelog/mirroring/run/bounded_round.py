"""A round that leaves groups and transactions consistent with their data.

=====  ===========================================================  ==================================================
step   what happens                                                 so that
=====  ===========================================================  ==================================================
1      the ends of the coordinators' topics are read. If the        their records up to there belong to data that the
       source forbids reading the offsets' topic, its groups'       source has already
       offsets are asked for
2      the ends of all other topics are read, and their data is     every committed offset of step 1 is at or below
       copied up to there                                           its partition's end in the copy
3      ``__consumer_offsets`` is copied up to step 1, or the        no group is ahead of its data
       offsets of step 1 are written
4      ``__transaction_state`` is copied up to step 1               each completed transaction has its markers
5      ``__transaction_state`` is copied on, up to its end now, or  a transaction whose marker is in the copy is at
       to the first completion whose markers are missing            least prepared; a broker on the copy completes it
=====  ===========================================================  ==================================================

A partition that fails in step 2 ends the round: groups and transactions stay where they were in the copy.
Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from tidelog.mirroring.run.copying import Copying
from tidelog.mirroring.run.partition_copy import PartitionCopy
from tidelog.mirroring.source.group_offsets import read_group_offsets
from tidelog.mirroring.source.source_topics import COORDINATOR_TOPICS
from tidelog.mirroring.target.group_writer import GroupWriter
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import error_text
from tidelog.replication.follower_commands import NamedOffset

Until = Callable[[Callable[[], bool]], Awaitable[bool]]
"""Waits until the function returns True. It returns False if that takes too long."""


class UnknownEndError(TidelogError):
    """The source does not report a partition's end, usually because it has no leader. A later round may succeed."""


class BoundedRound:
    def __init__(self, copying: Copying, until: Until, groups: GroupWriter | None = None) -> None:
        """``groups`` writes committed offsets if the source's own records of them cannot be read."""
        self._copying = copying
        self._until = until
        self._groups = groups

    async def run(self, *, timeout_s: float) -> bool:
        """Run the steps. Return False if the round ended early, because of a partition with an error."""
        coordinators = [one for one in self._copying.copies if one.topic in COORDINATOR_TOPICS]
        data = [one for one in self._copying.copies if one.topic not in COORDINATOR_TOPICS]
        writer = None if GROUP_METADATA_TOPIC in self._copying.ids else self._groups
        offsets = None if writer is None else await read_group_offsets(self._copying.setup.source.client)
        coordinator_ends = await self._ends(coordinators, timeout_s)
        data_ends = await self._ends(data, timeout_s)
        is_whole = await self._reach(data_ends)
        if not is_whole or len(data_ends) < len(data) or len(coordinator_ends) < len(coordinators):
            return False
        if writer is not None and offsets is not None:
            await writer.write(offsets)
        for topic in (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC):
            if not await self._reach({one: end for one, end in coordinator_ends.items() if one.topic == topic}):
                return False
        return await self._extend_transactions(coordinators, timeout_s)

    async def _extend_transactions(self, coordinators: Iterable[TopicPartition], timeout_s: float) -> bool:
        states = [one for one in coordinators if one.topic == TRANSACTION_STATE_TOPIC]
        ends = await self._ends(states, timeout_s)
        open_ids = self._open_transactions()
        copies = [self._copying.copies[partition] for partition in ends]
        for copy in copies:
            copy.held_ids = open_ids
        try:
            return await self._reach(ends)
        finally:
            for copy in copies:
                copy.held_ids = frozenset()

    async def _ends(self, partitions: Sequence[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Return the source's ends. A partition without one gets an error."""
        listed = await self._copying.setup.source.settled_offsets(partitions, NamedOffset.LATEST, timeout_s=timeout_s)
        ends = {}
        for partition, found in listed.items():
            copy = self._copying.copies.get(partition)
            if copy is None:
                continue
            if found.error_code:
                copy.error = copy.error or UnknownEndError(
                    f"{partition}: its end at the source is unknown: {error_text(found.error_code)}"
                )
            else:
                if isinstance(copy.error, UnknownEndError):
                    copy.error = None
                ends[partition] = found.offset
        return ends

    async def _reach(self, ends: dict[TopicPartition, int]) -> bool:
        """Copy the partitions up to their ends. Return False if one fails."""
        copies: list[PartitionCopy] = []
        for partition, end in ends.items():
            copy = self._copying.copies.get(partition)
            if copy is not None:
                copy.need(end)
                copies.append(copy)
        self._copying.wake()
        bounds = {copy: ends[copy.partition] for copy in copies}

        def is_over() -> bool:
            return all(
                copy.has_reached(end) or copy.error is not None or copy.partition not in self._copying.copies
                for copy, end in bounds.items()
            )

        await self._until(is_over)
        return all(copy.has_reached(end) for copy, end in bounds.items())

    def _open_transactions(self) -> frozenset[int]:
        """Return the producer ids with an open transaction in the copy."""
        return frozenset(
            entry.producer_id
            for copy in self._copying.copies.values()
            for entry in list(copy.log.producers.values())
            if entry.transaction_first_offset is not None
        )
