"""The page of one topic: its settings, and its partitions by the cluster metadata and in the given log directories.

The log ends of the shown partitions are read in the background, and the sizes of all partitions too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.inspect.compare import Placement, Role
from tidelog.inspect.replica_facts import ReplicaFacts
from tidelog.model.internal_topics import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    REMOTE_LOG_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.server.metadata.kraft.newest_metadata import NewestMetadata
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.web import urls
from tidelog.web.jobs import StillRunningError
from tidelog.web.page import Column, Fact, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.cluster import space_of_all
from tidelog.web.pages.row_links import log_dir_link, log_link
from tidelog.web.pages.topic_settings import settings_sections
from tidelog.web.reports.cluster_facts import known_metadata, known_settings
from tidelog.web.reports.topic_replicas import Holder, Replica, TopicReplicas, described, find_replicas
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError
from tidelog.web.svg.partition_columns import draw_partition_columns
from tidelog.web.svg.runs import runs_of

_Sizes = Mapping[tuple[str, str], int]
"""Bytes by the key of the log directory and the name of the partition's directory."""

_INTERNAL = {
    GROUP_METADATA_TOPIC: "Internal topic of the group coordinators: committed offsets and the members of groups.",
    TRANSACTION_STATE_TOPIC: "Internal topic of the transaction coordinators: the state of each transactional id.",
    SHARE_GROUP_STATE_TOPIC: "Internal topic of the share coordinators: the positions of share groups.",
    CLUSTER_METADATA_TOPIC: "The log of the KRaft quorum: every change of topics, settings and brokers of the cluster.",
    REMOTE_LOG_METADATA_TOPIC: "Internal topic of tiered storage: the segments that were copied to remote storage.",
}
_PURPOSES = {
    DirectoryPurpose.FUTURE: "a copy that is being moved to this log directory",
    DirectoryPurpose.DELETE: "deleted; a broker removes the files soon",
    DirectoryPurpose.STRAY: "the metadata places this replica elsewhere; no broker opens or removes it",
}


def topic_page(request: PageRequest) -> Page:
    """Return the page of the topic that the path names. Raise NotFoundError if neither metadata nor a directory has
    it."""
    topic = request.path["topic"]
    metadata = known_metadata(request)
    found = find_replicas(request, topic, metadata.placements)
    if not found.replicas and not found.passing:
        raise NotFoundError(f"no log directory and no cluster metadata has a topic {topic[:300]}")
    sizes, notes = _sizes(request)
    largest = {} if sizes is None else _largest(found, sizes)
    partitions, is_reading = _partitions_section(request, found, sizes, _source_text(metadata, found))
    if is_reading:
        notes.append("The ends of the shown logs are being read.")
    return Page(
        title=topic,
        trail=[Link("Cluster", urls.CLUSTER)],
        facts=_facts(topic, found, sizes, largest),
        links=[
            Link("Retention", urls.with_query(urls.RETENTION, {"topic": topic})),
            Link("Cleaner", urls.with_query(urls.CLEANER, {"topic": topic})),
        ],
        notes=[*(warning.removeprefix("Warning: ") for warning in metadata.warnings), *notes],
        sections=[
            partitions,
            _sizes_section(request, found, largest, is_known=sizes is not None),
            *([_passing_section(found.passing)] if found.passing else []),
            *settings_sections(topic, _settings(request)),
        ],
        refresh_seconds=1 if notes else None,
    )


def _source_text(metadata: NewestMetadata, found: TopicReplicas) -> str:
    if metadata.view is not None or metadata.source:
        return metadata.note + ("" if found.placements else " The topic is not in it.")
    return (
        "There is no cluster metadata here: the partitions are those of the given log directories, and leaders,"
        " replicas and roles are not known."
    )


def _settings(request: PageRequest) -> list[SettingSources]:
    """Return the sources of settings, those with the newest metadata first."""
    known = list(known_settings(request).values())
    return sorted(known, key=lambda one: (one.metadata_from is None, -one.metadata.epoch, -one.metadata.end_offset))


def _sizes(request: PageRequest) -> tuple[_Sizes | None, list[str]]:
    """Return the bytes of all logs, or None and a note while they are being read."""
    try:
        spaces = space_of_all(request)
    except StillRunningError as running:
        return None, [f"The sizes of files are being read: {running.progress.share or 0:.0%} of the logs are done."]
    return {(key, space.name): space.bytes for key, found in spaces.items() for space in found}, []


def _facts(topic: str, found: TopicReplicas, sizes: _Sizes | None, largest: Mapping[int, int]) -> list[Fact]:
    placements = found.placements.values()
    ids = sorted(map(uuid_to_text, {one.topic_id for one in placements if one.topic_id is not None}))
    logs = [replica for replica in found.replicas if replica.holder is not None]
    purpose = [Fact(name="purpose", value=_INTERNAL[topic])] if topic in _INTERNAL else []
    return [
        *purpose,
        Fact(name="topic_id", title="topic id", value=", ".join(ids) or None, kind=Kind.CODE),
        Fact(name="partitions", value=len({one.partition for one in found.replicas}), kind=Kind.NUMBER),
        Fact(
            name="replication_factor",
            value=max((len(one.replicas) for one in placements), default=None),
            kind=Kind.NUMBER,
        ),
        Fact(name="logs", title="logs here", value=len(logs), kind=Kind.NUMBER, help="In the given log directories"),
        *_trouble_facts(found),
        Fact(
            name="bytes",
            title="space",
            value=None if sizes is None else sum(sizes.get(one.key, 0) for one in logs if one.key is not None),
            kind=Kind.BYTES,
            help="All files of all given replicas",
        ),
        Fact(
            name="skew",
            title="largest partition to the mean",
            value=_skew(list(largest.values())) if largest else None,
            help="1.0 means that all partitions have the same size",
        ),
    ]


def _trouble_facts(found: TopicReplicas) -> list[Fact]:
    placements = found.placements.values()
    if not placements:
        return []
    without_leader = sum(one.leader < 0 for one in placements)
    under_replicated = sum(len(one.isr) < len(one.replicas) for one in placements)
    return [
        Fact(name="without_leader", title="partitions without a leader", value=without_leader, kind=Kind.NUMBER),
        Fact(
            name="under_replicated",
            title="under-replicated partitions",
            value=under_replicated,
            kind=Kind.NUMBER,
            help="Partitions with fewer in-sync replicas than replicas",
        ),
    ]


def _skew(sizes: Sequence[int]) -> float | None:
    mean = sum(sizes) / len(sizes)
    return max(sizes) / mean if mean else None


def _largest(found: TopicReplicas, sizes: _Sizes) -> dict[int, int]:
    """Return the bytes of each partition's largest replica here."""
    largest: dict[int, int] = defaultdict(int)
    for replica in found.replicas:
        if replica.key is not None:
            number = replica.partition.partition
            largest[number] = max(largest[number], sizes.get(replica.key, 0))
    return largest


def _partitions_section(
    request: PageRequest, found: TopicReplicas, sizes: _Sizes | None, source_text: str
) -> tuple[Section, bool]:
    """Return the section, and True while the shown logs are being read."""
    keys: dict[str, Callable[[Replica], Any]] = {"partition": lambda replica: replica.partition.partition}
    if "bytes" in request.query.text("partitions.sort") and sizes is None:
        sizes = {(key, space.name): space.bytes for key, of in space_of_all(request).items() for space in of}
    if sizes is not None:
        known = sizes
        keys["bytes"] = lambda replica: None if replica.key is None else known.get(replica.key)
    shown, paging = request.query.paged("partitions", found.replicas, keys=keys)
    facts: Mapping[tuple[str, str], ReplicaFacts] = {}
    is_reading = False
    try:
        facts = described(request, found.replicas, shown)
    except StillRunningError:
        is_reading = True
    ends = _leader_ends(found.replicas, facts)
    rows = [_replica_row(replica, facts, ends, sizes) for replica in shown]
    section = Section(
        name="partitions",
        title="Partitions",
        text=(
            "A row is a replica in a given log directory. The lag is the distance to the log end of the leader's"
            f" replica, if that is given too. {source_text}"
        ),
        table=Table(columns=_columns(request, rows), rows=rows, paging=paging),
    )
    return section, is_reading


def _leader_ends(replicas: Sequence[Replica], facts: Mapping[tuple[str, str], ReplicaFacts]) -> dict[int, int]:
    """Return the log end of the leader's replica by partition, if it was read."""
    ends = {}
    for replica in replicas:
        read = None if replica.key is None else facts.get(replica.key)
        if read is not None and read.log_end is not None and replica.role is Role.LEADER:
            ends[replica.partition.partition] = read.log_end
    return ends


def _columns(request: PageRequest, rows: Sequence[Row]) -> list[Column]:
    several = len(request.sources.log_dirs) > 1
    placed = any(row["replicas"] is not None for row in rows)
    columns = [
        Column(name="partition", kind=Kind.NUMBER, link=_log_link),
        Column(name="leader", kind=Kind.NUMBER),
        Column(name="replicas", help="Broker ids; the first one is the preferred leader"),
        Column(name="isr", title="in sync"),
        Column(name="holder", title="log directory", link=_directory_link),
        Column(name="role"),
        Column(name="lag", kind=Kind.NUMBER, link=_compare_link, help="Offsets; opens the comparison of the replicas"),
        Column(name="log_start", kind=Kind.NUMBER),
        Column(name="high_watermark", kind=Kind.NUMBER, help="As checkpointed, within the log"),
        Column(name="log_end", kind=Kind.NUMBER),
        Column(name="segments", kind=Kind.NUMBER),
        Column(name="bytes", title="space", kind=Kind.BYTES),
        Column(name="newest", title="newest record", kind=Kind.TIME, help="Of the last two segments"),
        Column(name="problem"),
    ]
    without = set() if placed else {"leader", "replicas", "isr", "role"}
    without |= set() if several and placed else {"lag"}
    without |= set() if several or any(row["log_dir"] is None for row in rows) else {"holder"}
    without |= set() if any(row["problem"] for row in rows) else {"problem"}
    return [column for column in columns if column.name not in without]


def _log_link(row: Row) -> str | None:
    return None if row["log_dir"] is None else log_link(row)


def _directory_link(row: Row) -> str | None:
    return None if row["log_dir"] is None else log_dir_link(row)


def _compare_link(row: Row) -> str | None:
    return None if row["lag"] is None else urls.compare_url(str(row["log"]))


def _replica_row(
    replica: Replica,
    facts: Mapping[tuple[str, str], ReplicaFacts],
    ends: Mapping[int, int],
    sizes: _Sizes | None,
) -> Row:
    placement, holder, key = replica.placement, replica.holder, replica.key
    read = None if key is None else facts.get(key)
    end = ends.get(replica.partition.partition)
    lag = None if read is None or read.log_end is None or end is None else end - read.log_end
    known_bytes = None if sizes is None or key is None else sizes.get(key)
    names = ("segments", "log_start", "high_watermark", "log_end", "leader_epoch")
    return {
        "log_dir": None if holder is None else holder.log_dir.key,
        "log": replica.partition.directory_name,
        "partition": replica.partition.partition,
        "leader": None if placement is None or placement.leader < 0 else placement.leader,
        "replicas": None if placement is None else list(placement.replicas),
        "isr": None if placement is None else list(placement.isr),
        "elr": None if placement is None else list(placement.elr),
        "holder": None if holder is None else holder.name,
        "directory": None if holder is None else str(holder.log_dir.path),
        "role": None if replica.role is None else replica.role.value,
        "lag": lag,
        **{name: None if read is None else getattr(read, name) for name in names},
        "bytes": read.bytes if read is not None else known_bytes,
        "newest": None if read is None else read.newest_timestamp,
        "topic_id": None if read is None else read.topic_id,
        "problem": _problem(placement, holder, read, lag),
    }


def _problem(
    placement: Placement | None, holder: Holder | None, read: ReplicaFacts | None, lag: int | None
) -> str | None:
    """Return a clause about a replica that is missing, cannot be read, belongs to another topic of the same name, or
    ends after the leader."""
    if holder is None:
        return "no given log directory has a replica"
    if read is not None and read.error is not None:
        return str(read.error)
    known_id = None if placement is None or placement.topic_id is None else uuid_to_text(placement.topic_id)
    if read is not None and known_id is not None and read.topic_id not in (None, known_id):
        return f"its topic id is {read.topic_id}: it belongs to an earlier topic of this name"
    if lag is not None and lag < 0:
        return f"it has {-lag:,} offsets after the leader's log end: as a follower it truncates them"
    return None


def _sizes_section(
    request: PageRequest, found: TopicReplicas, largest: Mapping[int, int], *, is_known: bool
) -> Section:
    dirs = {replica.partition.partition: replica for replica in reversed(found.replicas) if replica.key is not None}
    items = [_column_row(run, largest) for run in runs_of(sorted(largest), lambda _number: True)]
    mean = sum(largest.values()) / len(largest) if largest else 0.0
    shown, paging = request.query.paged("sizes", items, size=20)

    def link(item: Row) -> str | None:
        replica = dirs.get(int(str(item["first"])))
        return urls.log_url(*replica.key) if item["partitions"] == 1 and replica and replica.key else None

    picture = Picture(items=items, draw=lambda: draw_partition_columns(items, mean=mean, url=link))
    return Section(
        name="sizes",
        title="Partition sizes",
        text="A skew shows as high columns: keys that are not spread well, or partitions that were added later.",
        picture=picture if items else None,
        is_folded=True,
        table=Table(
            columns=[
                Column(name="first", title="first partition", kind=Kind.NUMBER, link=link),
                Column(name="last", title="last partition", kind=Kind.NUMBER),
                Column(name="largest", title="largest replica", kind=Kind.BYTES),
                Column(name="bytes", title="together", kind=Kind.BYTES),
            ],
            rows=shown,
            paging=paging,
            empty="No given log directory has a partition." if is_known else "The sizes are being read.",
        ),
    )


def _column_row(run: Sequence[int], largest: Mapping[int, int]) -> Row:
    sizes = [largest[number] for number in run]
    return {"first": run[0], "last": run[-1], "partitions": len(run), "bytes": sum(sizes), "largest": max(sizes)}


def _passing_section(passing: Sequence[tuple[Holder, PartitionDirectoryName]]) -> Section:
    rows = [
        {
            "log_dir": holder.log_dir.key,
            "name": str(parsed),
            "holder": holder.name,
            "purpose": parsed.purpose.value.removeprefix("-"),
            "meaning": _PURPOSES[parsed.purpose],
        }
        for holder, parsed in passing[:1000]
    ]
    return Section(
        name="passing",
        title=f"Directories that come or go: {len(passing):,}",
        table=Table(
            columns=[
                Column(name="name", kind=Kind.CODE),
                Column(name="holder", title="log directory", link=_directory_link),
                Column(name="purpose"),
                Column(name="meaning"),
            ],
            rows=rows,
        ),
    )
