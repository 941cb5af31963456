"""The rows about a group: its members, its committed offsets, and a share group's partitions.

Names, assignments and metadata come from clients. Long ones are shortened, with the full size. Pure.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidelog.inspect.share_state import DELIVERY_STATES, ShareState
from tidelog.model import TidelogError, TopicPartition
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.classic_member import ClassicMember
from tidelog.server.groups.state.consumer_group import ConsumerGroup
from tidelog.server.groups.state.consumer_member import ConsumerMember
from tidelog.server.groups.state.consumer_protocol import PROTOCOL_TYPE, read_assignment, read_subscription
from tidelog.server.groups.state.unserved_group import UnservedGroup
from tidelog.web.page import Row
from tidelog.web.reports.group_log import GroupPlace, times_of_expiry
from tidelog.web.reports.group_survey import GroupSurvey, topic_id_of

_LONGEST = 600
Topics = Mapping[uuid.UUID, str]


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text, or its beginning and its length if it is long."""
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text):,} characters)"


def numbers_text(numbers: Iterable[int]) -> str:
    """Return partition numbers with runs joined, such as ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def partitions_text(partitions: Mapping[str, Iterable[int]]) -> str:
    """Return partitions by topic, such as ``orders: 0-3; payments: 1``."""
    return shortened("; ".join(f"{topic}: {numbers_text(numbers)}" for topic, numbers in sorted(partitions.items())))


# --- members ---


def member_rows(place: GroupPlace, topics: Topics) -> list[Row]:
    """Return a row for each member, with the offset of the record of ``__consumer_offsets`` that names it."""
    group = place.group
    match group:
        case ClassicGroup():
            rows = [_classic_row(group, member) for member in group.members.values()]
        case ConsumerGroup():
            rows = [_consumer_row(group, member, topics) for member in group.members.values()]
        case UnservedGroup():
            rows = list(_unserved_rows(group, topics))
        case None:
            rows = []
    for row in rows:
        own = place.log.members.get((place.group_id, str(row["member_id"])))
        row["record_offset"] = place.log.newest.get(place.group_id) if own is None else own
    return list(rows)


def _member(member_id: str, **fields: object) -> dict[str, Any]:
    """Return a row with every key."""
    keys = ("instance_id", "client_id", "client_host", "epoch", "state", "subscription", "assigned", "target", "role")
    return {"member_id": member_id, **dict.fromkeys(keys), **fields}


def _classic_row(group: ClassicGroup, member: ClassicMember) -> dict[str, Any]:
    metadata = member.protocols[0].metadata if member.protocols else b""
    return _member(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        epoch=group.generation_id,
        subscription=_subscription(group, metadata),
        assigned=_assignment(group, member.assignment),
        role="leader" if group.is_leader(member.member_id) else None,
    )


def _subscription(group: ClassicGroup, data: bytes) -> str:
    if group.protocol_type != PROTOCOL_TYPE:
        return f"{len(data):,} bytes"
    try:
        return shortened(", ".join(sorted(read_subscription(data).topics)))
    except TidelogError as error:
        return f"{len(data):,} bytes that are no subscription: {error.message}"


def _assignment(group: ClassicGroup, data: bytes) -> str:
    if group.protocol_type != PROTOCOL_TYPE:
        return f"{len(data):,} bytes"
    try:
        return partitions_text(read_assignment(data).partitions)
    except TidelogError as error:
        return f"{len(data):,} bytes that are no assignment: {error.message}"


def _consumer_row(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> dict[str, Any]:
    subscribed = sorted(member.topic_names)
    if member.topic_regex:
        subscribed.append(f"/{member.topic_regex}/")
    return _member(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        epoch=member.member_epoch,
        state=member.state.name.lower().replace("_", " "),
        subscription=shortened(", ".join(subscribed)),
        assigned=partitions_text(_named(member.assigned, topics)),
        target=partitions_text(_named(group.target(member.member_id), topics)),
        role="uses the classic protocol" if member.classic is not None else None,
    )


def _named(partitions: Mapping[uuid.UUID, Iterable[int]], topics: Topics) -> dict[str, Iterable[int]]:
    return {topics.get(topic_id, f"topic id {topic_id}"): numbers for topic_id, numbers in partitions.items()}


def _unserved_rows(group: UnservedGroup, topics: Topics) -> Iterator[dict[str, Any]]:
    """Yield the members of a share or a streams group."""
    values: dict[str, dict[str, Any]] = {member_id: {} for member_id in group.member_ids}
    targets: dict[str, str] = {}
    for record in group.records:
        member_id = record.key.get("memberId")
        if member_id not in values or record.value is None:
            continue
        if record.number in (13, 21):
            targets[member_id] = _assigned_text(record.value, topics)
        elif record.number in (10, 14, 19, 22):
            values[member_id] |= record.value
    for member_id, value in values.items():
        yield _member(
            member_id,
            instance_id=value.get("instanceId"),
            client_id=value.get("clientId"),
            client_host=value.get("clientHost"),
            epoch=value.get("memberEpoch"),
            subscription=shortened(", ".join(value.get("subscribedTopicNames", ()))),
            assigned=_assigned_text(value, topics),
            target=targets.get(member_id),
        )


def _assigned_text(value: Mapping[str, Any], topics: Topics) -> str:
    """Return the partitions of a share group's member, or the tasks of a streams group's."""
    found: dict[str, list[int]] = {}
    for part in (*value.get("assignedPartitions", ()), *value.get("topicPartitions", ())):
        topic_id = topic_id_of(part["topicId"])
        name = None if topic_id is None else topics.get(topic_id)
        found.setdefault(name or f"topic id {part['topicId']}", []).extend(part["partitions"])
    for kind in ("active", "standby", "warmup"):
        for task in value.get(f"{kind}Tasks", ()):
            found.setdefault(f"{kind} tasks {task['subtopologyId']}", []).extend(task["partitions"])
    return partitions_text(found)


# --- offsets ---


def offset_rows(
    survey: GroupSurvey, place: GroupPlace, shown: Sequence[TopicPartition], *, retention_ms: int, now_ms: int
) -> list[dict[str, Any]]:
    """Return a row for each of these partitions."""
    times = times_of_expiry(place, retention_ms)
    return [_offset_row(survey, place, partition, times.get(partition), now_ms) for partition in shown]


def _offset_row(
    survey: GroupSurvey, place: GroupPlace, partition: TopicPartition, expires_ms: int | None, now_ms: int
) -> dict[str, Any]:
    committed = place.offsets[partition]
    log = survey.place_of(place.log.log_dir_key, partition)
    ends = None if log is None else log.ends
    is_expired = expires_ms is not None and now_ms >= expires_ms
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": committed.offset,
        "lag": None if ends is None else ends.lag(committed.offset),
        "stable_lag": None if ends is None else ends.stable_lag(committed.offset),
        "records": None,
        "log_start": None if ends is None else ends.log_start,
        "last_stable": None if ends is None else ends.last_stable,
        "log_end": None if ends is None else ends.log_end,
        "leader_epoch": committed.leader_epoch if committed.leader_epoch >= 0 else None,
        "commit_timestamp": committed.commit_ms,
        "expires": expires_ms,
        "is_expired": is_expired,
        "metadata": shortened(committed.metadata),
        "remark": _remark(survey, place, partition, committed, is_expired=is_expired),
        "log_dir": None if log is None else log.key,
        "record_offset": committed.record_offset,
    }


def _remark(
    survey: GroupSurvey, place: GroupPlace, partition: TopicPartition, committed: OffsetAndMetadata, *, is_expired: bool
) -> str | None:
    remarks = ["expired"] if is_expired else []
    log = survey.place_of(place.log.log_dir_key, partition)
    if log is None:
        remarks.append("its log is not here")
    elif committed.offset < log.ends.log_start:
        remarks.append("below the log start: the records up to there are deleted, so a consumer resets its offset")
    elif committed.offset > log.ends.log_end:
        remarks.append("beyond the log end: a consumer resets its offset")
    if place.log.offsets.has_pending(place.group_id, partition):
        remarks.append("an open transaction has a newer commit, which does not count yet")
    current = survey.topic_ids.get(partition.topic)
    if None not in (committed.topic_id, current) and committed.topic_id != current:
        remarks.append("committed for a deleted topic of the same name")
    return "; ".join(remarks) or None


# --- share groups ---


def share_row(survey: GroupSurvey, key: str, state: ShareState) -> dict[str, Any]:
    """Return a row about a share group's partition. ``key`` is that of the log directory with the record."""
    partition = survey.partition_of(state.place)
    log = None if partition is None else survey.place_of(key, partition)
    counts: dict[str, int] = {}
    for batch in state.batches:
        name = DELIVERY_STATES.get(batch.state, f"state {batch.state}")
        counts[name] = counts.get(name, 0) + batch.last - batch.first + 1
    return {
        "topic": f"topic id {state.place.topic_id}" if partition is None else partition.topic,
        "partition": state.place.partition,
        "start_offset": state.start_offset,
        "complete": state.complete,
        "lag": None if log is None else state.backlog(log.ends.log_end),
        "log_start": None if log is None else log.ends.log_start,
        "log_end": None if log is None else log.ends.log_end,
        "deliveries": ", ".join(f"{count:,} {name}" for name, count in counts.items()) or None,
        "most_deliveries": max((batch.deliveries for batch in state.batches), default=None),
        "state_epoch": state.state_epoch,
        "log_dir": None if log is None else log.key,
        "state_log_dir": key,
        "state_log": state.source.directory_name,
        "record_offset": state.source_offset,
    }
