"""The replicas of one topic in the given log directories, and the facts of some of them, read in the background."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.inspect.compare import Placement, Role
from tidelog.inspect.replica_facts import ReplicaFacts, describe_replica
from tidelog.model import FileMissingError, TopicPartition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.web.jobs import JobProgress
from tidelog.web.reports.cluster_facts import FACTS_AGE_MS, is_live
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A log directory with the broker that it belongs to. ``name`` is short: the broker's, or the path if several of
    the given log directories are that broker's."""

    log_dir: LogDir
    name: str
    node_id: int | None
    directory_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A partition's log in one log directory. ``holder`` is None for a partition without a log in any of them."""

    partition: TopicPartition
    holder: Holder | None
    placement: Placement | None

    @property
    def role(self) -> Role | None:
        if self.holder is None or self.placement is None:
            return None
        return self.placement.role_of(self.holder.node_id, self.holder.directory_id)

    @property
    def key(self) -> tuple[str, str] | None:
        """The key of the log directory, and the name of the partition's directory in it."""
        return None if self.holder is None else (self.holder.log_dir.key, self.partition.directory_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReplicas:
    """``placements`` are those of the newest metadata; ``passing`` are directories that are no live logs, with their
    log directory."""

    replicas: Sequence[Replica]
    placements: Mapping[int, Placement]
    passing: Sequence[tuple[Holder, PartitionDirectoryName]]


def find_replicas(request: PageRequest, topic: str, placements: Mapping[TopicPartition, Placement]) -> TopicReplicas:
    """Return the topic's replicas by partition and log directory; empty for an unknown topic."""
    own = {partition.partition: placed for partition, placed in placements.items() if partition.topic == topic}
    holders: dict[int, list[Holder]] = {number: [] for number in own}
    passing = []
    for holder in _holders(request):
        for _, parsed in holder.log_dir.directories():
            if parsed.topic_partition.topic != topic:
                continue
            if parsed.purpose is DirectoryPurpose.LIVE:
                holders.setdefault(parsed.topic_partition.partition, []).append(holder)
            else:
                passing.append((holder, parsed))
    replicas = []
    for number in sorted(holders):
        found: list[Holder | None] = [*holders[number]] or [None]
        partition, placement = TopicPartition(topic, number), own.get(number)
        replicas += [Replica(partition=partition, holder=holder, placement=placement) for holder in found]
    return TopicReplicas(replicas=replicas, placements=own, passing=passing)


def _holders(request: PageRequest) -> list[Holder]:
    metas = [one.meta() for one in request.sources.log_dirs]
    nodes = [None if meta is None else meta.node_id for meta in metas]
    return [
        Holder(
            log_dir=log_dir,
            name=str(log_dir.path) if node is None or nodes.count(node) > 1 else f"node {node}",
            node_id=node,
            directory_id=None if meta is None else meta.directory_id,
        )
        for log_dir, meta, node in zip(request.sources.log_dirs, metas, nodes, strict=True)
    ]


def described(
    request: PageRequest, all_replicas: Sequence[Replica], shown: Sequence[Replica]
) -> Mapping[tuple[str, str], ReplicaFacts]:
    """Return the facts of the shown replicas and of the other replicas of their partitions, by ``Replica.key``. Raise
    StillRunningError."""
    partitions = {replica.partition for replica in shown}
    wanted = {
        replica.key: replica.holder
        for replica in all_replicas
        if replica.partition in partitions and replica.holder is not None and replica.key is not None
    }
    states = {holder.log_dir.key: holder.log_dir.state() for holder in wanted.values()}

    def work(progress: JobProgress) -> dict[tuple[str, str], ReplicaFacts]:
        progress.expect(len(wanted), "logs")
        found = {}
        for (key, name), holder in wanted.items():
            log_dir = holder.log_dir
            view = LogView(log_dir.fs, log_dir.path / name, directory_state=states[key])
            found[key, name] = describe_replica(view)
            progress.advance(1)
        return found

    live = is_live(request)
    signature: Hashable = (
        "live" if live else tuple(_sizes(holder.log_dir, name) for (_, name), holder in wanted.items())
    )
    checkpoints = [tuple(read.stat for read in state.checkpoints.values()) for state in states.values()]
    return request.job(
        ("topic", tuple(wanted)),
        work,
        title="reading the ends of the topic's logs",
        signature=(signature, None if live else tuple(checkpoints)),
        max_age_ms=FACTS_AGE_MS if live else None,
    ).value


def _sizes(log_dir: LogDir, name: str) -> Hashable:
    try:
        return tuple(log_dir.fs.list_sizes(log_dir.path / name).items())
    except FileMissingError:
        return None  # removed since the listing
