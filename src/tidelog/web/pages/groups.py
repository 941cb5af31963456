"""The pages of groups: all groups with their lag, and one group with its members and offsets.

Both are made from one survey (``group_survey``), which reads ``__consumer_offsets`` in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import Any

from tidelog.web import urls
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.group import MS_PER_MINUTE, group_page, retention_field, retention_minutes
from tidelog.web.pages.row_links import log_column, undecoded_column
from tidelog.web.reports.group_rows import shortened
from tidelog.web.reports.group_summary import GroupSummary
from tidelog.web.reports.group_survey import GroupSurvey, survey_of
from tidelog.web.request import PageRequest
from tidelog.web.svg.bars import draw_bars

__all__ = ["group_page", "groups_page"]

_TYPES = ("classic", "consumer", "share", "streams", "offsets only")
_MOST_BARS = 20
_LONGEST_LINK = 4000
"""The length of a URL that every server and browser takes."""


def groups_page(request: PageRequest) -> Page:
    """Return the page of all groups in ``__consumer_offsets``."""
    wanted = request.query.text("group")
    type_ = request.query.choice("type", ("", *_TYPES), "")
    minutes = retention_minutes(request)
    finished = survey_of(request)
    survey = finished.value
    chosen = _chosen(survey, wanted, type_)
    shown, paging = request.query.paged("groups", chosen, keys=_KEYS)
    is_several = survey.is_several
    return Page(
        title="Groups",
        trail=[Link("Cluster", urls.CLUSTER)],
        form=[
            FormField(name="group", title="Group", value=wanted, hint="part of a name"),
            FormField(
                name="type",
                title="Type",
                value=type_,
                choices=[Choice(value="", title="all types"), *(Choice(value=one, title=one) for one in _TYPES)],
            ),
            retention_field(minutes),
        ],
        facts=[
            Fact(name="groups", value=len(survey.groups), kind=Kind.NUMBER),
            *(
                Fact(name=name.replace(" ", "_"), value=survey.types[name], kind=Kind.NUMBER)
                for name in _TYPES
                if name in survey.types
            ),
            Fact(name="offsets", value=sum(one.offset_count for one in survey.logs), kind=Kind.NUMBER),
            Fact(name="as_of", value=finished.made_at_ms, kind=Kind.TIME),
        ],
        notes=list(survey.notes()),
        links=[Link("Read again", urls.with_query(urls.GROUPS, {"newer": finished.made_at_ms}))],
        sections=[
            Section(
                name="groups",
                title="Groups",
                text=(
                    "A group as its records in __consumer_offsets describe it. The lag counts offsets from the"
                    " committed one to the log end, over all partitions whose log is here."
                ),
                picture=_lag_bars(chosen, is_several),
                table=Table(
                    columns=_columns(),
                    rows=[_row(one, minutes, request.now_ms, is_several) for one in shown],
                    paging=paging,
                    empty="No group matches." if survey.groups else "There are no groups here.",
                ),
            ),
            _logs_section(survey),
        ],
    )


def _chosen(survey: GroupSurvey, wanted: str, type_: str) -> Sequence[GroupSummary]:
    if not wanted and not type_:
        return survey.groups
    part = wanted.lower()
    return [one for one in survey.groups if part in one.group_id.lower() and (not type_ or one.type == type_)]


_KEYS: Mapping[str, Callable[[GroupSummary], Any]] = {
    "group": lambda one: one.group_id,
    "type": lambda one: one.type,
    "state": lambda one: one.state,
    "members": lambda one: one.members,
    "partitions": lambda one: one.partitions,
    "lag": lambda one: one.lag,
    "newest_commit": lambda one: one.newest_commit_ms,
}


def _columns() -> list[Column]:
    return [
        Column(name="group", kind=Kind.CODE, link=_link),
        Column(name="type"),
        Column(name="state", help="As the records say it. No record describes a rebalance in progress"),
        Column(name="members", kind=Kind.NUMBER),
        Column(name="epoch", kind=Kind.NUMBER, help="The generation of a classic group, or the group epoch"),
        Column(name="partitions", kind=Kind.NUMBER, help="Partitions with a committed offset, or with share state"),
        Column(name="lag", kind=Kind.NUMBER, help="Offsets up to the log ends that are here"),
        Column(name="without_log", kind=Kind.NUMBER, help="Partitions whose log is not here: their lag is not known"),
        Column(name="newest_commit", kind=Kind.TIME),
        Column(name="expired", kind=Kind.NUMBER, help="Offsets that a running coordinator would delete now"),
        Column(name="expires", kind=Kind.TIME, help="The time at which the last offset expires if nothing changes"),
        Column(
            name="record_offset",
            title="record",
            kind=Kind.NUMBER,
            link=lambda row: urls.records_url(str(row["log_dir"]), str(row["offsets_log"]), start=row["record_offset"]),
            help="The newest record about the group in __consumer_offsets",
        ),
    ]


def _row(one: GroupSummary, minutes: int, now_ms: int, is_several: bool) -> Row:
    times = one.expiry(minutes * MS_PER_MINUTE)
    return {
        "group": shortened(one.group_id),
        "type": one.type,
        "protocol_type": one.protocol_type,
        "state": one.state,
        "members": one.members,
        "epoch": one.epoch,
        "leader": one.leader,
        "partitions": one.partitions,
        "lag": one.lag,
        "without_log": one.without_log,
        "newest_commit": one.newest_commit_ms,
        "expired": sum(time <= now_ms for time in times),
        "expires": max(times) if times and not one.kept_offsets else None,
        "log_dir": one.log.log_dir_key,
        "offsets_log": one.log.source.directory_name,
        "record_offset": one.newest_record,
        "url": _url(one, is_several),
    }


def _link(row: Row) -> str | None:
    url = row["url"]
    return url if isinstance(url, str) else None


def _url(one: GroupSummary, is_several: bool) -> str | None:
    """Return the URL of the group's page, or None if the name is too long for a URL."""
    url = urls.group_url(one.group_id)
    if len(url) > _LONGEST_LINK:
        return None
    return urls.with_query(url, {"from": one.log.log_dir_key if is_several else None})


def _lag_bars(chosen: Sequence[GroupSummary], is_several: bool) -> Picture | None:
    largest = nlargest(_MOST_BARS, (one for one in chosen if one.lag), key=lambda one: one.lag or 0)
    if not largest:
        return None
    items = [{"group": shortened(one.group_id), "lag": one.lag, "url": _url(one, is_several)} for one in largest]
    return Picture(
        items=items,
        draw=lambda: draw_bars(
            items, title="Lag by group", name="group", value="lag", text=lambda lag: f"{lag:,}", url=_link
        ),
    )


def _logs_section(survey: GroupSurvey) -> Section:
    rows = [
        {
            "log_dir": one.log_dir_key,
            "log": one.source.directory_name,
            "groups": one.group_count,
            "offsets": one.offset_count,
            "undecoded": one.undecoded,
            "first_undecoded": one.first_undecoded,
            "error": None if one.error is None else str(one.error),
        }
        for one in survey.logs
    ]
    return Section(
        name="logs",
        title="Partitions of __consumer_offsets",
        text="A group's records are in one partition, which the hash of its name selects.",
        is_folded=not any(row["undecoded"] or row["error"] for row in rows),
        table=Table(
            columns=[
                log_column(),
                Column(name="groups", kind=Kind.NUMBER),
                Column(name="offsets", kind=Kind.NUMBER),
                undecoded_column(),
                Column(name="error"),
            ],
            rows=rows,
            empty="No partition of __consumer_offsets is here.",
        ),
    )
