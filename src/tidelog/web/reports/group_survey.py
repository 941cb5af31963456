"""All groups in the given log directories, with the ends of the logs that they read.

The survey is work of the background: it reads ``__consumer_offsets`` and ``__share_group_state`` completely, and finds
the log end of every partition that a group reads. A partition that several given brokers have is read once. Memory
grows with the number of groups and offsets.
"""

from __future__ import annotations

import uuid
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from tidelog.inspect.compare import ChosenReplicas
from tidelog.inspect.offsets import LogEnds, log_ends
from tidelog.inspect.share_state import ShareLog, SharePartition, ShareState, read_share_logs
from tidelog.model import CancelledError, CorruptRecordError, TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC
from tidelog.model.kafka_uuid import uuid_from_text
from tidelog.server.groups.state.group_map import Group
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.reports.group_log import GroupLog, GroupPlace, LogCounts, read_group, read_group_logs
from tidelog.web.reports.group_summary import GroupSummary, summary_of
from tidelog.web.reports.internal_logs import choose, log_bytes, partitions_of, signature_of
from tidelog.web.reports.log_reports import freshness_of
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir, Sources

_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A partition's log in one of the log directories."""

    key: str
    ends: LogEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSurvey:
    groups: Sequence[GroupSummary] = ()
    """All groups, sorted by id."""
    types: Mapping[str, int] = field(default_factory=dict)
    """The number of groups by type."""
    is_several: bool = False
    """True if several log directories have groups, so that a name alone may not be clear."""
    logs: Sequence[LogCounts] = ()
    shares: Sequence[tuple[str, ShareLog]] = ()
    """The logs of share groups, with the key of each one's log directory."""
    states: Mapping[str, Sequence[tuple[str, ShareState]]] = field(default_factory=dict)
    """The states of share groups by group, with the same key."""
    places: Mapping[TopicPartition, Sequence[LogPlace]] = field(default_factory=dict)
    clusters: Mapping[str, str | None] = field(default_factory=dict)
    """The cluster id by the key of a log directory."""
    topics: Mapping[uuid.UUID, str] = field(default_factory=dict)
    """Topic names by id, from the cluster metadata and from the records of share groups."""
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    """The ids of the topics that exist by the cluster metadata, by name."""
    replicas: ChosenReplicas = field(default_factory=ChosenReplicas)
    errors: Sequence[TidelogError] = ()
    """The errors of log directories that cannot be listed."""

    def notes(self) -> Iterator[str]:
        """Yield sentences about everything that could not be read, and about the choice of replicas."""
        if not self.logs:
            yield "No partition of __consumer_offsets is here."
        yield from self.replicas.notes("read")
        shares = [log for _, log in self.shares]
        for topic, count in (
            (GROUP_METADATA_TOPIC, sum(log.undecoded for log in self.logs)),
            (SHARE_GROUP_STATE_TOPIC, sum(log.undecoded for log in shares)),
        ):
            if count:
                yield f"{count:,} records of {topic} could not be decoded."
        for error in [*(log.error for log in self.logs), *(log.error for log in shares), *self.errors]:
            if error is not None:
                yield f"Error: {error}. The records after it are not counted."

    def find(self, group_id: str) -> list[GroupSummary]:
        """Return the groups of a name. There are several if the directories belong to several clusters."""
        return [one for one in self.groups if one.group_id == group_id]

    def place_of(self, key: str, partition: TopicPartition) -> LogPlace | None:
        """Return a partition's log: of the log directory ``key`` if it is there, or of another one of its cluster."""
        places = self.places.get(partition, ())
        same = [one for one in places if self.clusters.get(one.key) == self.clusters.get(key)]
        return next((one for one in same if one.key == key), same[0] if same else None)

    def shares_of(self, group_id: str, key: str) -> list[tuple[str, ShareState]]:
        """Return the states of the share group with a record in log directory ``key``, with the keys of the log
        directories that have the states."""
        cluster = self.clusters.get(key)
        found = self.states.get(group_id, ())
        return [(key, state) for key, state in found if self.clusters.get(key) == cluster]

    def partition_of(self, where: SharePartition) -> TopicPartition | None:
        """Return the partition of a share group's record, or None if the name of its topic is not known."""
        topic = self.topics.get(topic_id_of(where.topic_id) or uuid.UUID(int=0))
        return None if topic is None else TopicPartition(topic, where.partition)


def topic_id_of(text: str) -> uuid.UUID | None:
    """Return the topic id of Kafka's text. None if the text is no id."""
    try:
        return uuid_from_text(text)
    except (CorruptRecordError, ValueError):
        return None


def survey_of(request: PageRequest) -> Finished[GroupSurvey]:
    """Return the survey. Raise StillRunningError."""
    signature = signature_of(request.sources, _TOPICS)
    return request.job(
        "groups",
        lambda progress: survey_groups(request.sources, progress),
        title="reading the groups and their offsets",
        signature=signature.value,
        is_repeatable=True,
        max_age_ms=LIVE_AGE_MS if signature.ages else None,
    )


def place_of(request: PageRequest, summary: GroupSummary) -> GroupPlace:
    """Read a group with its members and offsets. Raise StillRunningError."""
    log_dir = request.sources.log_dir(summary.log.log_dir_key)
    log = summary.log.source.directory_name
    signature, max_age_ms = freshness_of(log_dir, log)
    return request.job(
        ("group", summary.log.log_dir_key, summary.group_id),
        lambda progress: read_group(log_dir, summary.log.source, summary.group_id, progress.advance),
        title=f"reading the group's records in {log}",
        signature=signature,
        is_repeatable=True,
        max_age_ms=max_age_ms,
    ).value


def survey_groups(sources: Sources, progress: JobProgress) -> GroupSurvey:
    """Read all groups. Errors of partitions and directories are in the result."""
    errors: list[TidelogError] = []
    internal = partitions_of(sources, _TOPICS)
    replicas = choose(sources, internal)
    once = {
        one.key: [part for part in internal[one.key] if replicas.is_chosen(one.path, part)] for one in sources.log_dirs
    }
    progress.expect(sum(log_bytes(one, once[one.key]) for one in sources.log_dirs))
    parts: list[_Part] = []
    shares: list[tuple[str, ShareLog]] = []
    known: dict[TopicPartition, TopicPartition] = {}
    for one in sources.log_dirs:
        only = once[one.key]
        parts += _caught(errors, partial(read_group_logs, one, only, partial(_part, known), progress.advance))
        read_shares = partial(read_share_logs, one.fs, one.path, only=only, advance=progress.advance)
        shares += [(one.key, log) for log in _caught(errors, read_shares)]
    topic_ids = _topic_ids(sources)
    topics = {topic_id: name for part in parts for topic_id, name in part.topics.items()}
    topics |= {topic_id: name for name, topic_id in topic_ids.items()}
    places = _places(sources, _read_partitions(known, shares, topics), progress, errors)
    progress.advance(0)  # a cancelled survey must not become a result
    survey = GroupSurvey(
        logs=[part.counts for part in parts],
        shares=shares,
        states=_states(shares),
        places=places,
        clusters={one.key: _cluster(one) for one in sources.log_dirs},
        topics=topics,
        topic_ids=topic_ids,
        replicas=replicas,
        errors=errors,
    )
    for part in parts:
        committed = zip(part.partitions, part.offsets, strict=True)
        for group in part.groups:
            group.set_lags(list(_lags(survey, group, islice(committed, group.partitions))))
    groups = [group for part in parts for group in part.groups]
    groups.sort(key=lambda one: (one.group_id, one.log.log_dir_key))
    keys = {one.log.log_dir_key for one in groups}
    return replace(survey, groups=groups, types=Counter(one.type for one in groups), is_several=len(keys) > 1)


@dataclass(frozen=True, slots=True)
class _Part:
    """A partition of ``__consumer_offsets``: only the numbers of its groups, because the records need much memory."""

    counts: LogCounts
    groups: Sequence[GroupSummary]
    partitions: Sequence[TopicPartition]
    """The partitions with committed offsets, group by group; equal ones are one object."""
    offsets: Sequence[int]
    """The committed offset of each of these partitions."""
    topics: Mapping[uuid.UUID, str]
    """The topic names in the records, by id."""


def _part(known: dict[TopicPartition, TopicPartition], log: GroupLog) -> _Part:
    counts, places = log.counts(), [log.place(group_id) for group_id in log.group_ids()]
    return _Part(
        counts,
        [summary_of(place, counts) for place in places],
        [known.setdefault(partition, partition) for place in places for partition in place.offsets],
        array("q", (committed.offset for place in places for committed in place.offsets.values())),
        dict(_ids_in_records(log)),
    )


def _lags(
    survey: GroupSurvey, group: GroupSummary, committed: Iterable[tuple[TopicPartition, int]]
) -> Iterator[int | None]:
    """Yield the lag of each partition that a group reads, None for a partition whose log is not here."""
    key = group.log.log_dir_key
    for partition, offset in committed:
        log = survey.place_of(key, partition)
        yield None if log is None else log.ends.lag(offset)
    for _, state in survey.shares_of(group.group_id, key) if group.type == "share" else ():
        shared = survey.partition_of(state.place)
        log = None if shared is None else survey.place_of(key, shared)
        yield None if log is None else state.backlog(log.ends.log_end)


def _caught(errors: list[TidelogError], read: Callable[[], list[T]]) -> list[T]:
    try:
        return read()
    except CancelledError:
        raise
    except TidelogError as error:
        errors.append(error)
        return []


def _cluster(log_dir: LogDir) -> str | None:
    meta = log_dir.meta()
    return None if meta is None else meta.cluster_id


def _read_partitions(
    committed: Iterable[TopicPartition], shares: Iterable[tuple[str, ShareLog]], topics: Mapping[uuid.UUID, str]
) -> frozenset[TopicPartition]:
    """Return the partitions that groups read: those with committed offsets, and those of share groups."""
    lookup = GroupSurvey(topics=topics)
    shared = {lookup.partition_of(where) for _, log in shares for where in log.states}
    return frozenset([*committed, *(one for one in shared if one is not None)])


def _places(
    sources: Sources, partitions: Collection[TopicPartition], progress: JobProgress, errors: list[TidelogError]
) -> dict[TopicPartition, list[LogPlace]]:
    here = {one.key: frozenset(one.partitions()) & frozenset(partitions) for one in sources.log_dirs}
    replicas = choose(sources, here)
    places: defaultdict[TopicPartition, list[LogPlace]] = defaultdict(list)
    for one in sources.log_dirs:
        only = [part for part in here[one.key] if replicas.is_chosen(one.path, part)]
        for partition, ends in _caught(errors, partial(_ends, one, only, progress)):
            places[partition].append(LogPlace(one.key, ends))
    return dict(places)


def _states(shares: Iterable[tuple[str, ShareLog]]) -> dict[str, list[tuple[str, ShareState]]]:
    by_group: defaultdict[str, list[tuple[str, ShareState]]] = defaultdict(list)
    for key, log in shares:
        for where, state in sorted(log.states.items()):
            by_group[where.group].append((key, state))
    return dict(by_group)


def _ends(
    log_dir: LogDir, only: Collection[TopicPartition], progress: JobProgress
) -> list[tuple[TopicPartition, LogEnds]]:
    return list(log_ends(log_dir.fs, log_dir.path, only, advance=progress.advance).items())


def _topic_ids(sources: Sources) -> dict[str, uuid.UUID]:
    ids = {}
    for one in sources.log_dirs:
        for name, text in sources.settings(one).metadata.topic_ids.items():
            topic_id = topic_id_of(text)
            if topic_id is not None:
                ids[name] = topic_id
    return ids


def _ids_in_records(log: GroupLog) -> Iterator[tuple[uuid.UUID, str]]:
    """Yield the topic ids and names in records of share groups and of committed offsets."""
    for group_id in log.offsets.group_ids:
        for partition, committed in log.offsets.of_group(group_id).items():
            if committed.topic_id is not None:
                yield committed.topic_id, partition.topic
    for group in log.groups.values():
        yield from _ids_of_share_group(group)


def _ids_of_share_group(group: Group) -> Iterator[tuple[uuid.UUID, str]]:
    for record in getattr(group, "records", ()):
        for part in ("initializingTopics", "initializedTopics", "deletingTopics"):
            for topic in (record.value or {}).get(part, ()):
                topic_id = topic_id_of(topic["topicId"])
                if topic_id is not None:
                    yield topic_id, topic["topicName"]
