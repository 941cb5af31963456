"""The sections of the broker's page about the groups that it coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidelog.web import urls
from tidelog.web.page import Column, Kind, Row, Section
from tidelog.web.pages.broker_section import LiveReports, bars, partition_name
from tidelog.web.pages.row_links import topic_column

_NUMBER = Kind.NUMBER


def group_sections(live: LiveReports) -> Iterator[Section]:
    report = live.report("groups")
    yield _groups(live, report)
    partitions = report.get("partitions", {"rows": [], "total": 0})
    if partitions["rows"]:
        yield _partitions(live, partitions)


def _groups(live: LiveReports, report: Any) -> Section:
    shards = report.get("shards", [])
    loading = sum(shard["state"] != "active" for shard in shards)
    text = (
        f"This broker coordinates {report.get('groups', 0):,} groups, in {len(shards):,} partitions of"
        " __consumer_offsets. The lag counts the offsets from the committed one to the high watermark, of the"
        " partitions that this broker leads; the others are unknown here."
    )
    if loading:
        text += f" {loading:,} of its partitions are still loading, or could not be loaded."
    return live.section(
        "groups",
        "Groups",
        report,
        [
            Column(name="group", kind=Kind.CODE, link=_group_link),
            Column(name="type"),
            Column(name="state"),
            Column(name="members", kind=_NUMBER),
            Column(name="epoch", kind=_NUMBER, help="The group epoch, or the generation of a classic group"),
            Column(name="assignor"),
            Column(name="offsets", kind=_NUMBER, help="Committed offsets"),
            Column(name="unknown", kind=_NUMBER, help="Offsets of partitions that another broker leads"),
            Column(name="lag", kind=_NUMBER),
            Column(name="largest_lag", kind=_NUMBER, help="The largest lag of a partition"),
            Column(name="coordinator_partition", kind=_NUMBER, help="The partition of __consumer_offsets"),
        ],
        text=text,
        empty="No group has this name." if report.get("groups") else "This broker coordinates no group.",
        picture=bars(
            ({"group": row["group"], "lag": row["lag"]} for row in report["rows"]),
            title="Lag by group",
            name="group",
            value="lag",
            url=_group_link,
        ),
    )


def _partitions(live: LiveReports, report: Any) -> Section:
    items = [
        {"partition": f"{row['group']} {partition_name(row)}", "lag": row["lag"], "group": row["group"]}
        for row in report["rows"]
    ]
    return live.section(
        "group_partitions",
        "Lag by partition",
        report,
        [
            Column(name="group", kind=Kind.CODE, link=_group_link),
            topic_column(),
            Column(name="partition", kind=_NUMBER, link=live.log_link),
            Column(name="committed", kind=_NUMBER),
            Column(name="end", title="high watermark", kind=_NUMBER),
            Column(name="lag", kind=_NUMBER),
            Column(name="committed_ms", title="committed at", kind=Kind.TIME),
            Column(name="client_id", kind=Kind.CODE, help="The client of the member that has the partition"),
            Column(name="host", kind=Kind.CODE),
        ],
        text="The partitions with the largest lag first.",
        picture=bars(items, title="Lag by group and partition", name="partition", value="lag", url=_group_link),
    )


def _group_link(row: Row) -> str | None:
    return urls.group_url(str(row["group"]))
