"""The page of one group: its members as committed, and its offsets with the lag behind each log end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.unserved_group import UnservedGroup
from tidelog.web import urls
from tidelog.web.jobs import JobProgress
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.query import Query
from tidelog.web.reports.group_log import GroupPlace
from tidelog.web.reports.group_rows import member_rows, offset_rows, share_row, shortened
from tidelog.web.reports.group_summary import GroupSummary
from tidelog.web.reports.group_survey import GroupSurvey, place_of, survey_of
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError
from tidelog.web.svg.lag import draw_lag

MS_PER_MINUTE: Final = 60_000
_DEFAULT_MINUTES: Final = 10_080
"""Kafka's default of ``offsets.retention.minutes``: seven days."""
_MOST_MINUTES: Final = 2**31 - 1


def retention_minutes(request: PageRequest) -> int:
    """Return ``offsets.retention.minutes`` by the query. The log directories do not hold this setting."""
    return request.query.integer("retention", _DEFAULT_MINUTES, minimum=1, maximum=_MOST_MINUTES)


def retention_field(minutes: int) -> FormField:
    return FormField(name="retention", title="offsets.retention.minutes", value=str(minutes))


def group_page(request: PageRequest) -> Page:
    """Return the page of one group. Raise NotFoundError if no record names it."""
    minutes = retention_minutes(request)
    counts = request.query.flag("count")
    finished = survey_of(request)
    survey = finished.value
    summary, others = _find(request, survey)
    place = place_of(request, summary)
    offsets, share = _offsets(request, survey, place, minutes, counts=counts), _share(request.query, survey, place)
    return Page(
        title=shortened(place.group_id) or "the group with the empty name",
        trail=[Link("Cluster", urls.CLUSTER), Link("Groups", urls.GROUPS)],
        form=[*others, retention_field(minutes)],
        facts=[*_facts(summary, place), Fact(name="as_of", value=finished.made_at_ms, kind=Kind.TIME)],
        notes=list(survey.notes()),
        links=[Link("Read again", request.query.with_changes({"newer": str(finished.made_at_ms)}))],
        sections=[section for section in (offsets, share, _members(request.query, survey, place)) if section],
    )


def _find(request: PageRequest, survey: GroupSurvey) -> tuple[GroupSummary, list[FormField]]:
    """Return the group that the URL names, and a field that selects another log directory with a group of its name."""
    name = request.path["group"]
    found = survey.find(name)
    if not found:
        unread = [str(log.error) for log in survey.logs if log.error is not None]
        raise NotFoundError(
            f"no record of __consumer_offsets names the group {shortened(name)}"
            + (f"; not all of them can be read: {unread[0]}" if unread else "")
        )
    keys = [one.log.log_dir_key for one in found]
    key = request.query.choice("from", keys, keys[0])
    titles = {one.key: str(one.path) for one in request.sources.log_dirs}
    field = FormField(
        name="from", title="From", value=key, choices=[Choice(value=one, title=titles[one]) for one in keys]
    )
    return found[keys.index(key)], [field] if len(keys) > 1 else []


def _facts(summary: GroupSummary, place: GroupPlace) -> Iterator[Fact]:
    group, key, log = place.group, place.log.log_dir_key, place.log.source.directory_name
    newest = place.log.newest.get(place.group_id)
    yield Fact(name="group", value=shortened(place.group_id), kind=Kind.CODE)
    yield Fact(name="type", value=summary.type)
    yield Fact(name="state", value=summary.state, help="No record describes a rebalance in progress")
    if isinstance(group, ClassicGroup):
        yield Fact(name="protocol_type", value=group.protocol_type)
        yield Fact(name="generation", value=group.generation_id, kind=Kind.NUMBER)
        yield Fact(name="protocol", value=group.protocol_name, kind=Kind.CODE)
        yield Fact(name="leader", value=group.leader_id, kind=Kind.CODE)
        yield Fact(name="state_since", value=group.state_changed_ms, kind=Kind.TIME)
    elif group is not None:
        yield Fact(name="group_epoch", value=group.group_epoch, kind=Kind.NUMBER)
        yield Fact(name="assignment_epoch", value=group.assignment_epoch, kind=Kind.NUMBER)
        if not isinstance(group, UnservedGroup):
            yield Fact(name="assignor", value=group.preferred_assignor, kind=Kind.CODE)
            yield Fact(name="assigned", value=group.assigned_ms or None, kind=Kind.TIME)
    yield Fact(name="members", value=summary.members, kind=Kind.NUMBER)
    yield Fact(name="partitions", value=summary.partitions, kind=Kind.NUMBER)
    yield Fact(name="lag", value=summary.lag, kind=Kind.NUMBER, help="Offsets up to the log ends that are here")
    yield Fact(name="newest_commit", value=summary.newest_commit_ms, kind=Kind.TIME)
    yield Fact(
        name="record",
        title="newest record",
        value=None if newest is None else f"{log}, offset {newest:,}",
        kind=Kind.CODE,
        url=None if newest is None else urls.records_url(key, log, start=newest),
    )


# --- offsets ---


def _offsets(
    request: PageRequest, survey: GroupSurvey, place: GroupPlace, minutes: int, *, counts: bool
) -> Section | None:
    if isinstance(place.group, UnservedGroup) and not place.offsets:
        return None
    lags = {partition: _lag(survey, place, partition) for partition in place.offsets}
    keys: Mapping[str, Callable[[TopicPartition], Any]] = {
        "topic": lambda one: one,
        "offset": lambda one: place.offsets[one].offset,
        "lag": lambda one: lags[one],
        "commit_timestamp": lambda one: place.offsets[one].commit_ms,
    }
    shown, paging = request.query.paged("offsets", sorted(place.offsets), keys=keys, sort="topic")
    rows = offset_rows(survey, place, shown, retention_ms=minutes * MS_PER_MINUTE, now_ms=request.now_ms)
    if counts:
        _count(request, place, rows)
    for row in rows:
        row["offsets_log_dir"], row["offsets_log"] = place.log.log_dir_key, place.log.source.directory_name
    columns = _offset_columns({name for name in ("records", "metadata", "remark") if any(row[name] for row in rows)})
    return Section(
        name="offsets",
        title="Committed offsets",
        text=(
            "The offset is that of the next record to read. The lag counts offsets up to the log end, and the stable"
            " lag up to the last stable offset, where a read_committed consumer stops. Offsets are no records:"
            " compaction leaves gaps, and transaction markers take offsets. A running coordinator deletes expired"
            " offsets."
        ),
        picture=_picture(rows, "The group's positions"),
        table=Table(columns=columns, rows=rows, paging=paging, empty="The group has no committed offsets."),
        links=[Link("Count the records", request.query.with_changes({"count": "1"}))] if rows and not counts else [],
    )


def _lag(survey: GroupSurvey, place: GroupPlace, partition: TopicPartition) -> int | None:
    log = survey.place_of(place.log.log_dir_key, partition)
    return None if log is None else log.ends.lag(place.offsets[partition].offset)


def _offset_columns(named: Collection[str]) -> list[Column]:
    """Return the columns. Records, metadata and remarks have one only if they are ``named``."""
    columns = [
        Column(name="topic", kind=Kind.CODE, link=_log_link),
        Column(name="partition", kind=Kind.NUMBER, link=_log_link),
        Column(name="offset", kind=Kind.NUMBER, link=_position_link, help="Links to the next record to read"),
        Column(name="lag", kind=Kind.NUMBER),
        Column(name="stable_lag", kind=Kind.NUMBER),
        Column(name="records", kind=Kind.NUMBER, help="Records from the offset to the log end"),
        Column(name="log_start", kind=Kind.NUMBER),
        Column(name="log_end", kind=Kind.NUMBER),
        Column(name="commit_timestamp", title="committed", kind=Kind.TIME),
        Column(name="expires", kind=Kind.TIME, help="Nothing here: the offset stays while the group uses its topic"),
        Column(name="metadata", kind=Kind.DATA),
        Column(name="remark"),
        Column(
            name="record_offset",
            title="record",
            kind=Kind.NUMBER,
            link=lambda row: urls.records_url(
                str(row["offsets_log_dir"]), str(row["offsets_log"]), start=row["record_offset"]
            ),
            help="The record of __consumer_offsets that has the offset",
        ),
    ]
    return [one for one in columns if one.name in named or one.name not in ("records", "metadata", "remark")]


def _log_name(row: Row) -> str:
    return TopicPartition(str(row["topic"]), int(str(row["partition"]))).directory_name


def _log_link(row: Row) -> str | None:
    return None if row["log_dir"] is None else urls.log_url(str(row["log_dir"]), _log_name(row))


def _position_link(row: Row) -> str | None:
    """Return the URL of the records at the group's position, if the log has some there."""
    position = row["offset"] if "offset" in row else row["start_offset"]
    start, end = row["log_start"], row["log_end"]
    if not (isinstance(position, int) and isinstance(start, int) and isinstance(end, int) and start <= position < end):
        return None
    return urls.records_url(str(row["log_dir"]), _log_name(row), start=position)


def _picture(rows: Sequence[Row], title: str) -> Picture | None:
    items = [
        {
            "partition": f"{row['topic']}-{row['partition']}",
            "log_start": row["log_start"],
            "log_end": row["log_end"],
            "offset": row["offset"] if "offset" in row else row["start_offset"],
            "lag": row["lag"],
            "url": _log_link(row),
        }
        for row in rows
        if row["lag"] is not None
    ]
    if not items:
        return None
    return Picture(items=items, draw=lambda: draw_lag(items, title=title, url=lambda item: _text(item["url"])))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(request: PageRequest, place: GroupPlace, rows: Sequence[dict[str, Any]]) -> None:
    """Fill in the exact number of records behind the offset of each row. Raise StillRunningError."""
    wanted = [
        (str(row["log_dir"]), _log_name(row), max(row["offset"], row["log_start"]), row["log_end"])
        for row in rows
        if row["log_dir"] is not None and row["offset"] <= row["log_end"]
    ]
    key: Hashable = ("group records", place.log.log_dir_key, place.group_id)
    found = request.job(
        key,
        lambda progress: _counted(request, wanted, progress),
        title="counting the records behind the group's offsets",
        signature=tuple(wanted),
    ).value
    for row in rows:
        number = found.get((str(row["log_dir"]), _log_name(row)))
        if isinstance(number, str):
            row["remark"] = "; ".join(filter(None, (row["remark"], number)))
        else:
            row["records"] = number


def _counted(
    request: PageRequest, wanted: Sequence[tuple[str, str, int, int]], progress: JobProgress
) -> dict[tuple[str, str], int | str]:
    """Return the number of records of each range by log, or the error."""
    found: dict[tuple[str, str], int | str] = {}
    for key, name, start, end in wanted:
        try:
            view = request.sources.log_dir(key).view(name)
            found[key, name] = view.count_between(start, end, advance=progress.advance).records
        except TidelogError as error:
            found[key, name] = f"not counted: {error}"
        progress.advance(0)
    return found


# --- share groups and members ---


def _share(query: Query, survey: GroupSurvey, place: GroupPlace) -> Section | None:
    states = survey.shares_of(place.group_id, place.log.log_dir_key)
    if not states and not isinstance(place.group, UnservedGroup):
        return None
    if not states and place.offsets:
        return None
    shown, paging = query.paged("share", states)
    rows = [share_row(survey, key, state) for key, state in shown]
    return Section(
        name="share",
        title="Share partitions",
        text=(
            "The state of a share group in __share_group_state. Records below the start offset are finished. The"
            " backlog counts the offsets up to the log end that no consumer has finished yet."
        ),
        picture=_picture(rows, "The share group's start offsets"),
        table=Table(
            columns=[
                Column(name="topic", kind=Kind.CODE, link=_log_link),
                Column(name="partition", kind=Kind.NUMBER, link=_log_link),
                Column(name="start_offset", kind=Kind.NUMBER, link=_position_link),
                Column(name="lag", title="backlog", kind=Kind.NUMBER),
                Column(name="complete", kind=Kind.NUMBER, help="Finished offsets from the start offset on"),
                Column(name="deliveries", help="Offsets from the start offset on, by their delivery state"),
                Column(name="most_deliveries", kind=Kind.NUMBER, help="The largest delivery count"),
                Column(name="log_start", kind=Kind.NUMBER),
                Column(name="log_end", kind=Kind.NUMBER),
                Column(name="state_epoch", kind=Kind.NUMBER),
                Column(
                    name="record_offset",
                    title="record",
                    kind=Kind.NUMBER,
                    link=lambda row: urls.records_url(
                        str(row["state_log_dir"]), str(row["state_log"]), start=row["record_offset"]
                    ),
                    help="The newest record of __share_group_state about the partition",
                ),
            ],
            rows=rows,
            paging=paging,
            empty="No record of __share_group_state is about this group.",
        ),
    )


def _members(query: Query, survey: GroupSurvey, place: GroupPlace) -> Section:
    shown, paging = query.paged("members", member_rows(place, survey.topics))
    key, log = place.log.log_dir_key, place.log.source.directory_name
    return Section(
        name="members",
        title="Members",
        text="The members by the newest records. A member that left is gone, with its assignment.",
        table=Table(
            columns=[
                Column(name="member_id", title="member", kind=Kind.CODE),
                Column(name="instance_id", kind=Kind.CODE),
                Column(name="client_id", kind=Kind.CODE),
                Column(name="client_host", title="host", kind=Kind.CODE),
                Column(name="role"),
                Column(name="epoch", kind=Kind.NUMBER),
                Column(name="state"),
                Column(name="subscription"),
                Column(name="assigned"),
                Column(name="target", help="The partitions that the member is to have"),
                Column(
                    name="record_offset",
                    title="record",
                    kind=Kind.NUMBER,
                    link=lambda row: urls.records_url(key, log, start=row["record_offset"]),
                ),
            ],
            rows=shown,
            paging=paging,
            empty="The group has no members.",
        ),
    )
