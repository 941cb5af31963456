"""The plan of a mirror: the source compared with the copy, before anything is written.

===========  =========================================================================================================
state        meaning of a topic's state
===========  =========================================================================================================
new          the copy does not have it
goes on      the copy has it, with the same topic id
re-made      the copy has a topic of that name with another id, which gives way
unreadable   this client may not read it at the source; it is left out
deleted      the copy has it and the source has not; it stays, or is deleted by choice
===========  =========================================================================================================
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.client.cluster.cluster_client import ClusterClient
from tidelog.mirroring.planning.options import MirrorOptions
from tidelog.mirroring.source.source_cluster import Denied, SourceCluster
from tidelog.mirroring.source.source_topics import COORDINATOR_TOPICS, SourceTopic, TopicSelection
from tidelog.mirroring.target.directory_survey import DirectorySurvey, survey_directory
from tidelog.model import DirectoryError, TopicPartition
from tidelog.protocol.errors import error_text
from tidelog.replication.follower_commands import NamedOffset
from tidelog.replication.follower_events import ListedPartition
from tidelog.storage.fs import LOCAL, FileSystem

NEW: Final = "new"
GOES_ON: Final = "goes on"
REMADE: Final = "re-made"
UNREADABLE: Final = "unreadable"
DELETED: Final = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    partition: TopicPartition
    topic_id: uuid.UUID | None
    state: str
    leader: int | None = None
    source_start: int | None = None
    source_end: int | None = None
    source_bytes: int | None = None
    """None if the sizes cannot be read."""
    copy_end: int | None = None
    """The offset at which the copy goes on; None for a new partition."""
    error: str | None = None

    @property
    def missing_records(self) -> int | None:
        if self.source_end is None or self.source_start is None or self.state in (UNREADABLE, DELETED):
            return None
        return max(0, self.source_end - max(self.copy_end or 0, self.source_start))

    @property
    def missing_bytes(self) -> int | None:
        """The estimated bytes to copy, by the share of the missing offsets."""
        missing = self.missing_records
        if missing is None or self.source_bytes is None or self.source_end is None or self.source_start is None:
            return None
        span = self.source_end - self.source_start
        return round(self.source_bytes * missing / span) if span else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPlan:
    directory: Path
    source_cluster_id: str
    is_new: bool
    holder: int | None
    partitions: Sequence[PlannedPartition]
    free_bytes: int
    denials: Mapping[str, str]
    """The parts of the source that cannot be read, with the reason."""

    @property
    def missing_bytes(self) -> int | None:
        """The estimated bytes to copy. None if no size can be read."""
        sizes = [one.missing_bytes for one in self.partitions if one.missing_records]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


async def make_plan(options: MirrorOptions, fs: FileSystem = LOCAL) -> MirrorPlan:
    """Read the source and the directory, and return the plan.

    Raise ClientError if the source cannot be reached, and DirectoryError if the directory is not a copy of it.
    """
    async with ClusterClient(options.source) as client:
        source = SourceCluster(client)
        selection = TopicSelection.of(options.topics, with_coordinators=options.with_coordinators)
        survey = await asyncio.to_thread(survey_directory, fs, options.directory)
        topics = await source.topics(selection)
        require_same_cluster(options, survey, topics.cluster_id)
        unreadable = await source.unreadable(topics.topics)
        readable = [one for one, _ in topics.partitions() if one.topic not in unreadable]
        starts, ends, sizes, settings, acls = await asyncio.gather(
            source.offsets(readable, NamedOffset.EARLIEST),
            source.offsets(readable, NamedOffset.LATEST),
            source.sizes({one.topic for one in readable}),
            source.settings(topics.topics),
            source.acls(),
        )
        planner = _Planner(survey, unreadable, starts, ends, sizes)
        partitions = [planned for topic in topics.topics.values() for planned in planner.of_topic(topic)]
        partitions += planner.deleted(topics.topics, selection)
        denials = dict(_denials(sizes, settings, acls))
        return MirrorPlan(
            directory=options.directory,
            source_cluster_id=topics.cluster_id,
            is_new=survey.is_new,
            holder=survey.holder,
            partitions=partitions,
            free_bytes=free_bytes(options.directory),
            denials=denials,
        )


def require_same_cluster(options: MirrorOptions, survey: DirectorySurvey, cluster_id: str) -> None:
    """Raise DirectoryError if the copy is one of another cluster, unless the options accept that."""
    if survey.source_cluster_id not in (None, cluster_id) and not options.accepts_cluster:
        raise DirectoryError(
            f"this is a copy of cluster {survey.source_cluster_id}, but the source is cluster {cluster_id}. Nothing was"
            " changed. If the source was moved to a new cluster with its topic ids, use --accept-other-cluster",
            path=options.directory,
        )


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk on which the directory is, or will be."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


@dataclass(frozen=True, slots=True)
class _Planner:
    survey: DirectorySurvey
    unreadable: frozenset[str]
    starts: Mapping[TopicPartition, ListedPartition]
    ends: Mapping[TopicPartition, ListedPartition]
    sizes: Mapping[TopicPartition, int] | Denied

    def of_topic(self, topic: SourceTopic) -> Iterator[PlannedPartition]:
        known = self.survey.topic_ids.get(topic.name)
        state = NEW if known is None else GOES_ON if known == topic.topic_id else REMADE
        for number, found in sorted(topic.partitions.items()):
            partition = TopicPartition(topic.name, number)
            if topic.name in self.unreadable:
                yield PlannedPartition(partition=partition, topic_id=topic.topic_id, state=UNREADABLE)
                continue
            start, end = self.starts[partition], self.ends[partition]
            code = start.error_code or end.error_code
            yield PlannedPartition(
                partition=partition,
                topic_id=topic.topic_id,
                state=state,
                leader=found.leader_id if found.leader_id >= 0 else None,
                source_start=None if code else start.offset,
                source_end=None if code else end.offset,
                source_bytes=None if isinstance(self.sizes, Denied) else self.sizes.get(partition),
                copy_end=self.survey.log_ends.get(partition) if state == GOES_ON else None,
                error=error_text(code) if code else None,
            )

    def deleted(self, topics: Mapping[str, SourceTopic], selection: TopicSelection) -> Iterator[PlannedPartition]:
        for partition, end in sorted(self.survey.log_ends.items()):
            topic_id = self.survey.topic_ids.get(partition.topic)
            is_known = partition.topic in topics or partition.topic in COORDINATOR_TOPICS
            if topic_id is not None and not is_known and selection.fits(partition.topic):
                yield PlannedPartition(partition=partition, topic_id=topic_id, state=DELETED, copy_end=end)


def _denials(sizes: object, settings: Mapping[str, dict[str, str] | Denied], acls: object) -> Iterator[tuple[str, str]]:
    if isinstance(sizes, Denied):
        yield "sizes", sizes.reason
    refused = {name: found for name, found in settings.items() if isinstance(found, Denied)}
    if refused:
        name, first = next(iter(refused.items()))
        yield "settings", f"{first.reason} ({name}" + (f" and {len(refused) - 1} more)" if len(refused) > 1 else ")")
    if isinstance(acls, Denied):
        yield "ACLs", acls.reason
