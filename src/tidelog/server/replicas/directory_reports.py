"""The reports to the controller about the log directories of this broker's replicas (KIP-858).

===========================================  =========================================================================
event                                        report
===========================================  =========================================================================
a replica is not in the log directory that   its log directory
the metadata has for it
a move's future log has caught up            the new log directory; the move ends after the controller's response. So
                                             the metadata never has a replica in a log directory that it has left
a move is cancelled after that               the log directory that the replica has stayed in
a log directory fails                        first the log directories as above, then the failure: the controller moves
                                             the leaderships of replicas in it
===========================================  =========================================================================

The controller may know the new log directory when the source of a move fails. The replica is then reported as one of
the failed directory, because its current log is there. Thread rule: the event loop only. Source: Kafka's
``ReplicaAlterLogDirsThread.PromotionState``, ``ReplicaManager.maybeUpdateTopicAssignment``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tidelog.model import TopicPartition
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager


class DirectoryMetadata(Protocol):
    """The part of ``ClusterMetadata`` that receives the reports."""

    async def assign_directories(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None: ...
    async def report_offline_directories(self, directories: Sequence[uuid.UUID]) -> None: ...


class ReplicaPlace(NamedTuple):
    """A replica of this broker, and the log directory that the metadata has for it."""

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    directory_id: uuid.UUID

    @property
    def key(self) -> tuple[uuid.UUID, int]:
        return self.topic_id, self.topic_partition.partition


class DirectoryReports:
    def __init__(self, logs: LogManager, metadata: DirectoryMetadata) -> None:
        self._logs = logs
        self._metadata = metadata

    def misplaced(self, replicas: Iterable[ReplicaPlace]) -> dict[tuple[uuid.UUID, int], uuid.UUID]:
        """Return the log directories of replicas that the metadata has elsewhere.

        A replica with a future log in the metadata's directory is not misplaced: its move is about to end.
        """
        ids = {directory.path: directory.id for directory in self._logs.online}

        def id_of(log: PartitionLog | None) -> uuid.UUID | None:
            return None if log is None else ids.get(log.directory.parent)

        found = {}
        for replica in replicas:
            current = id_of(self._logs.log(replica.topic_partition))
            future = id_of(self._logs.log(replica.topic_partition, is_future=True))
            if current is not None and replica.directory_id not in (current, future):
                found[replica.key] = current
        return found

    async def report(self, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]) -> None:
        """Report the log directories of replicas, and return once the controller knows them."""
        if directories:
            await self._metadata.assign_directories(directories)

    async def end_move(self, replica: ReplicaPlace, directory_id: uuid.UUID, end: Callable[[], None]) -> None:
        """Report the new log directory of a move that has caught up, and let the move end."""
        await self._metadata.assign_directories({replica.key: directory_id})
        end()

    async def report_failure(self, directory_id: uuid.UUID, replicas: Iterable[ReplicaPlace]) -> None:
        """Report a failed log directory. ``replicas`` are all replicas of this broker."""
        places = list(replicas)
        online = {directory.id for directory in self._logs.online}
        lost = [
            replica
            for replica in places
            if replica.directory_id in online and self._logs.log(replica.topic_partition) is None
        ]
        await self.report(self.misplaced(places) | {replica.key: directory_id for replica in lost})
        await self._metadata.report_offline_directories([directory_id])
