"""All groups in the given log directories, with the ends of the logs that they read.

The survey is work of the background: it reads ``__consumer_offsets`` and ``__share_group_state`` completely, and finds
the log end of every partition that a group reads. A partition that several given brokers have is read once. Memory
grows with the number of groups and offsets.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from tidelog.inspect.compare import ChosenReplicas
from tidelog.inspect.offsets import LogEnds, log_ends
from tidelog.inspect.share_state import ShareLog, SharePartition, ShareState, read_share_logs
from tidelog.model import CancelledError, CorruptRecordError, TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC
from tidelog.model.kafka_uuid import uuid_from_text
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata
from tidelog.server.groups.reports import group_protocol_type, group_type
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.group_map import Group
from tidelog.server.groups.state.unserved_group import UnservedGroup
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.reports.group_log import GroupLog, read_group_logs
from tidelog.web.reports.internal_logs import choose, log_bytes, partitions_of, signature_of
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir, Sources

_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogPlace:
    """A partition's log in one of the log directories."""

    key: str
    ends: LogEnds


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A group, and the part of the survey that has it. ``group`` is None if only its offsets are left."""

    group_id: str
    log: GroupLog
    group: Group | None

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self.log.offsets.of_group(self.group_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a list. ``lag`` counts offsets of the partitions whose log is here, None without any. It is the
    backlog of a share group."""

    place: GroupPlace
    type: str
    protocol_type: str
    state: str | None
    members: int
    epoch: int | None
    """The generation of a classic group, and the group epoch of any other."""
    leader: str | None
    partitions: int
    lag: int | None
    without_log: int
    newest_commit_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSurvey:
    groups: Sequence[GroupSummary] = ()
    """All groups, sorted by id."""
    types: Mapping[str, int] = field(default_factory=dict)
    """The number of groups by type."""
    is_several: bool = False
    """True if several log directories have groups, so that a name alone may not be clear."""
    logs: Sequence[GroupLog] = ()
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

    def find(self, group_id: str) -> list[GroupPlace]:
        """Return the places of a group. There are several if the directories belong to several clusters."""
        return [one.place for one in self.groups if one.place.group_id == group_id]

    def place_of(self, key: str, partition: TopicPartition) -> LogPlace | None:
        """Return a partition's log: of the log directory ``key`` if it is there, or of another one of its cluster."""
        places = self.places.get(partition, ())
        same = [one for one in places if self.clusters.get(one.key) == self.clusters.get(key)]
        return next((one for one in same if one.key == key), same[0] if same else None)

    def shares_of(self, place: GroupPlace) -> list[tuple[str, ShareState]]:
        """Return a share group's states, with the key of the log directory that has the record."""
        cluster = self.clusters.get(place.log.log_dir_key)
        found = self.states.get(place.group_id, ())
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


def survey_groups(sources: Sources, progress: JobProgress) -> GroupSurvey:
    """Read all groups. Errors of partitions and directories are in the result."""
    errors: list[TidelogError] = []
    internal = partitions_of(sources, _TOPICS)
    replicas = choose(sources, internal)
    once = {
        one.key: [part for part in internal[one.key] if replicas.is_chosen(one.path, part)] for one in sources.log_dirs
    }
    progress.expect(sum(log_bytes(one, once[one.key]) for one in sources.log_dirs))
    logs: list[GroupLog] = []
    shares: list[tuple[str, ShareLog]] = []
    for one in sources.log_dirs:
        only = once[one.key]
        logs += _caught(errors, partial(read_group_logs, one, only, progress.advance))
        read_shares = partial(read_share_logs, one.fs, one.path, only=only, advance=progress.advance)
        shares += [(one.key, log) for log in _caught(errors, read_shares)]
    topic_ids = _topic_ids(sources)
    topics = {**dict(_ids_in_records(logs)), **{topic_id: name for name, topic_id in topic_ids.items()}}
    places = _places(sources, _read_partitions(logs, shares, topics), progress, errors)
    progress.advance(0)  # a cancelled survey must not become a result
    survey = GroupSurvey(
        logs=logs,
        shares=shares,
        states=_states(shares),
        places=places,
        clusters={one.key: _cluster(one) for one in sources.log_dirs},
        topics=topics,
        topic_ids=topic_ids,
        replicas=replicas,
        errors=errors,
    )
    groups = [GroupPlace(group_id, log, log.groups.get(group_id)) for log in logs for group_id in log.group_ids()]
    groups.sort(key=lambda one: (one.group_id, one.log.log_dir_key))
    summaries = [_summary(survey, one) for one in groups]
    keys = {one.log.log_dir_key for one in groups}
    return replace(survey, groups=summaries, types=Counter(one.type for one in summaries), is_several=len(keys) > 1)


def _summary(survey: GroupSurvey, place: GroupPlace) -> GroupSummary:
    group, key = place.group, place.log.log_dir_key
    offsets = place.offsets
    shares = [state for _, state in survey.shares_of(place)] if isinstance(group, UnservedGroup) else []
    lags: list[int | None] = []
    for partition, committed in offsets.items():
        log = survey.place_of(key, partition)
        lags.append(None if log is None else log.ends.lag(committed.offset))
    for state in shares:
        shared = survey.partition_of(state.place)
        log = None if shared is None else survey.place_of(key, shared)
        lags.append(None if log is None else state.backlog(log.ends.log_end))
    known = [lag for lag in lags if lag is not None]
    return GroupSummary(
        place=place,
        type="offsets only" if group is None else str(group_type(group)),
        protocol_type="" if group is None else str(group_protocol_type(group)),
        state=None if group is None else str(group.state),
        members=member_count(group),
        epoch=epoch_of(group),
        leader=group.leader_id if isinstance(group, ClassicGroup) else None,
        partitions=len(lags),
        lag=sum(known) if known else None,
        without_log=len(lags) - len(known),
        newest_commit_ms=max((one.commit_ms for one in offsets.values()), default=None),
    )


def member_count(group: Group | None) -> int:
    if group is None:
        return 0
    return len(group.member_ids if isinstance(group, UnservedGroup) else group.members)


def epoch_of(group: Group | None) -> int | None:
    """Return the generation of a classic group, or the group epoch."""
    if group is None:
        return None
    return group.generation_id if isinstance(group, ClassicGroup) else group.group_epoch


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
    logs: Iterable[GroupLog], shares: Iterable[tuple[str, ShareLog]], topics: Mapping[uuid.UUID, str]
) -> frozenset[TopicPartition]:
    """Return the partitions that groups have offsets of."""
    committed = {
        partition for log in logs for group_id in log.offsets.group_ids for partition in log.offsets.of_group(group_id)
    }
    lookup = GroupSurvey(topics=topics)
    shared = {lookup.partition_of(where) for _, log in shares for where in log.states}
    return frozenset(committed | {one for one in shared if one is not None})


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


def _ids_in_records(logs: Iterable[GroupLog]) -> Iterator[tuple[uuid.UUID, str]]:
    """Yield the topic ids and names in records of share groups and of committed offsets."""
    for log in logs:
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
