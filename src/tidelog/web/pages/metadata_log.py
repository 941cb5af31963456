"""The page of the metadata log as a timeline: every record as a sentence, with filters.

The log is read once, in the background, and kept (``metadata_timeline``). A request filters the columns and makes rows
for the shown records only. The picture joins neighbouring records of a kind to runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from tidelog.inspect.metadata_copies import MetadataCopy
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.web import urls
from tidelog.web.jobs import Finished
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.metadata import log_dir_of, metadata_copies, metadata_job
from tidelog.web.reports.metadata_runs import NO_CHANGE, snapshot_time, timeline_marks, timeline_runs
from tidelog.web.reports.metadata_timeline import KINDS, MetadataTimeline, TimelineFilter
from tidelog.web.reports.metadata_timeline_reader import read_timeline
from tidelog.web.request import PageRequest
from tidelog.web.shown import time_text
from tidelog.web.sources import LogDir, NotFoundError
from tidelog.web.svg.timeline import draw_timeline

_LONGEST_NAME: Final = 250
_ALL: Final = "all"
_KIND_TITLES: Final = {"": "all changes", _ALL: "everything", **{kind: kind for kind in KINDS}}
_Link = Callable[[Mapping[str, object]], str]
"""Return the URL of this page with other parameters."""


def metadata_log_page(request: PageRequest) -> Page:
    """Return the timeline of one directory's copy, by default the newest one. Raise NotFoundError without any."""
    copies = metadata_copies(request).value
    readable = [one for one in copies if one.error is None]
    if not copies:
        raise NotFoundError(
            "no given directory has a metadata log: it is in the directory that metadata.log.dir names, or else in the"
            " first of log.dirs; a broker with ZooKeeper had none"
        )
    log_dir = log_dir_of(request, (readable or copies)[0])
    keys = [log_dir_of(request, one).key for one in copies]
    chosen = request.query.choice("dir", ["", *keys], "")
    log_dir = request.sources.log_dir(chosen) if chosen else log_dir

    def link(query: Mapping[str, object]) -> str:
        return urls.with_query(urls.METADATA_LOG, {"dir": chosen or None, **query})

    made = _timeline(request, log_dir)
    timeline = made.value
    wanted = _filter(request, timeline)
    rows = timeline.select(wanted)
    is_newest = request.query.choice("order", ("newest", "oldest"), "newest") == "newest"
    by_time = request.query.choice("axis", ("time", "offset"), "time") == "time" and _has_times(timeline)
    return Page(
        title="Metadata log",
        trail=[Link("Cluster", urls.CLUSTER), Link("Metadata", urls.METADATA)],
        facts=_facts(log_dir, made, len(rows)),
        form=_form(request, copies, keys, timeline, wanted),
        notes=list(_notes(timeline)),
        links=[
            Link("Log", urls.log_url(log_dir.key, METADATA_DIRECTORY)),
            Link("Findings", urls.log_part_url(log_dir.key, METADATA_DIRECTORY, "findings")),
        ],
        sections=[
            _timeline_section(timeline, rows, wanted, link, by_time=by_time),
            _records_section(request, log_dir, timeline, rows, link, is_newest=is_newest),
            _epochs_section(timeline, request, link),
            _snapshots_section(timeline, request, link),
        ],
    )


def _timeline(request: PageRequest, log_dir: LogDir) -> Finished[MetadataTimeline]:
    path = log_dir.path / METADATA_DIRECTORY

    return metadata_job(
        request,
        "metadata log",
        log_dir,
        lambda progress: read_timeline(log_dir.fs, path, progress.advance),
        title="reading the metadata log",
    )


def _has_times(timeline: MetadataTimeline) -> bool:
    return len(timeline) > 0 and bool((timeline.time_ms >= 0).all()) and bool(np.ptp(timeline.time_ms))


def _filter(request: PageRequest, timeline: MetadataTimeline) -> TimelineFilter:
    query = request.query
    kind = query.choice("kind", _KIND_TITLES, "")
    partition, broker = query.integer("partition", -1, minimum=-1), query.integer("broker", -1, minimum=-1)
    start, end = query.integer("start", -1, minimum=-1), query.integer("end", -1, minimum=-1)
    return TimelineFilter(
        kind="" if kind == _ALL else kind,
        type=query.choice("type", ["", *timeline.types], ""),
        topic=query.text("topic"),
        partition=None if partition < 0 else partition,
        broker=None if broker < 0 else broker,
        start=None if start < 0 else start,
        end=None if end < 0 else end,
        with_no_ops=kind == _ALL,
    )


def _form(
    request: PageRequest,
    copies: Sequence[MetadataCopy],
    keys: Sequence[str],
    timeline: MetadataTimeline,
    wanted: TimelineFilter,
) -> list[FormField]:
    text = request.query.text
    types = [Choice(value="", title="any type"), *(Choice(value=name, title=name) for name in sorted(timeline.types))]
    fields = [
        FormField(name="topic", title="Topic", value=wanted.topic, hint="name"),
        FormField(name="partition", title="Partition", value=text("partition"), hint="number"),
        FormField(name="broker", title="Broker", value=text("broker"), hint="id"),
        FormField(
            name="kind",
            title="Changes of",
            value=text("kind"),
            choices=[Choice(value=value, title=title) for value, title in _KIND_TITLES.items()],
        ),
        FormField(name="type", title="Type of record", value=wanted.type, choices=types),
        FormField(name="start", title="From offset", value=text("start")),
        FormField(name="end", title="To offset (exclusive)", value=text("end")),
        FormField(
            name="order",
            title="Order",
            value=text("order"),
            choices=[Choice(value="newest", title="newest first"), Choice(value="oldest", title="oldest first")],
        ),
        FormField(
            name="axis",
            title="Picture by",
            value=text("axis"),
            choices=[Choice(value="time", title="time"), Choice(value="offset", title="offset")],
        ),
    ]
    if len(copies) > 1:
        chosen = text("dir")
        choices = [Choice(value=key, title=str(one.log_directory)) for key, one in zip(keys, copies, strict=True)]
        fields.append(
            FormField(name="dir", title="Copy", value=chosen, choices=[Choice(value="", title="the newest"), *choices])
        )
    return fields


def _facts(log_dir: LogDir, made: Finished[MetadataTimeline], shown: int) -> list[Fact]:
    timeline = made.value
    count = len(timeline)
    return [
        Fact(
            name="directory",
            value=str(log_dir.path),
            kind=Kind.CODE,
            url=urls.log_dir_url(log_dir.key),
            help="The log directory whose copy of the metadata log is shown",
        ),
        Fact(name="records", title="records in the log", value=count, kind=Kind.NUMBER),
        Fact(name="matching", title="matching records", value=shown, kind=Kind.NUMBER),
        Fact(name="log_start", value=int(timeline.offset[0]) if count else None, kind=Kind.NUMBER),
        Fact(
            name="end_offset", title="log end", value=int(timeline.offset[-1]) + 1 if count else None, kind=Kind.NUMBER
        ),
        Fact(
            name="first_time", title="first record", value=int(timeline.time_ms[0]) if count else None, kind=Kind.TIME
        ),
        Fact(name="last_time", title="last record", value=int(timeline.time_ms[-1]) if count else None, kind=Kind.TIME),
        Fact(name="log_bytes", title="size", value=timeline.log_bytes, kind=Kind.BYTES),
        Fact(name="epochs", title="epochs of the quorum", value=len(timeline.epochs), kind=Kind.NUMBER),
        Fact(name="snapshots", value=len(timeline.snapshots), kind=Kind.NUMBER),
        Fact(name="read_at", value=made.made_at_ms, kind=Kind.TIME),
    ]


def _notes(timeline: MetadataTimeline) -> Iterator[str]:
    for note in timeline.notes:
        yield f"{note[0].upper()}{note[1:]}."
    damage = timeline.damage
    if damage is not None:
        yield (
            f"Reading stopped at position {damage.position:,} of {damage.path}: {damage.reason}. The last"
            f" {damage.rest:,} bytes of the file are not shown."
        )


def _timeline_section(
    timeline: MetadataTimeline, rows: npt.NDArray[np.int64], wanted: TimelineFilter, link: _Link, *, by_time: bool
) -> Section:
    runs = timeline_runs(timeline, rows, by_time=by_time)
    marks = timeline_marks(timeline, wanted.start, wanted.end)
    present = {run["kind"] for run in runs}
    kinds = [kind for kind in (*KINDS, NO_CHANGE) if kind in present]
    picture = Picture(
        items=[*marks, *runs],
        draw=lambda: draw_timeline(runs, marks, kinds=kinds, by_time=by_time, tip=_tip, url=partial(_item_url, link)),
    )
    return Section(
        name="timeline",
        title="Timeline",
        text=(
            "A row for each kind of change. A bar joins neighbouring records and has their number, and crosses mark"
            " removals. A dashed line is a new epoch of the quorum, and a triangle is a snapshot. A click shows the"
            " records."
        ),
        picture=picture if runs else None,
    )


def _tip(item: Row) -> str:
    if "mark" in item:
        return f"{item['label']}: offset {item['offset']:,}, {_time(item['time_ms'])}"
    first, last = item["first_offset"], item["last_offset"]
    if item["records"] == 1:
        return f"{item['kind']}: 1 record at offset {first:,}, {_time(item['start_ms'])}"
    removals = f", {item['removals']:,} of them removals" if item["removals"] else ""
    return (
        f"{item['kind']}: {item['records']:,} records{removals}, offsets {first:,} to {last:,},"
        f" {_time(item['start_ms'])} to {_time(item['end_ms'])}"
    )


def _time(value: object) -> str:
    return time_text(value) if isinstance(value, int) and value != -1 else "no time"


def _item_url(link: _Link, item: Row) -> str:
    if "mark" in item:
        return link({"start": item["offset"]})
    kind = _ALL if item["kind"] == NO_CHANGE else item["kind"]
    return link({"start": item["first_offset"], "end": int(str(item["last_offset"])) + 1, "kind": kind})


def _records_section(
    request: PageRequest,
    log_dir: LogDir,
    timeline: MetadataTimeline,
    rows: npt.NDArray[np.int64],
    link: _Link,
    *,
    is_newest: bool,
) -> Section:
    shown, paging = request.query.paged("records", rows[::-1].tolist() if is_newest else rows.tolist())
    columns = [
        Column(
            name="offset",
            kind=Kind.NUMBER,
            link=lambda row: urls.records_url(log_dir.key, METADATA_DIRECTORY, start=row["offset"]),
        ),
        Column(name="time", kind=Kind.TIME, help="The time of the record's batch"),
        Column(name="change"),
        Column(name="type", kind=Kind.CODE),
        Column(
            name="topic",
            kind=Kind.CODE,
            link=lambda row: None if row["topic"] is None else link({"topic": row["topic"]}),
        ),
        Column(name="epoch", kind=Kind.NUMBER, help="The epoch of the quorum"),
        Column(
            name="controller", kind=Kind.NUMBER, help="The leader of the quorum in that epoch, which wrote the record"
        ),
    ]
    return Section(
        name="records",
        title="Records",
        text=(
            "The log tells when a change was made and by which controller, but not by which user or client. An offset"
            " leads to the whole record."
        ),
        table=Table(
            columns=columns,
            rows=[_record_row(timeline, row) for row in shown],
            paging=paging,
            empty="No record matches." if len(timeline) else "The log has no record.",
        ),
    )


def _record_row(timeline: MetadataTimeline, number: int) -> Row:
    row = timeline.row(number)
    topic = row["topic"]
    return row | {"topic": topic[:_LONGEST_NAME] if isinstance(topic, str) else None}


def _epochs_section(timeline: MetadataTimeline, request: PageRequest, link: _Link) -> Section:
    rows: list[Row] = [
        {
            "epoch": one.epoch,
            "leader": one.leader,
            "first_offset": one.first_offset,
            "time": one.time_ms,
            "voters": list(one.voters),
        }
        for one in timeline.epochs
    ]
    shown, paging = request.query.paged("epochs", rows[::-1], size=20)
    return Section(
        name="epochs",
        title="Leaders of the quorum",
        text="Each leader writes its name first. A leader that is not known wrote it below the log start.",
        table=Table(
            columns=[
                Column(name="epoch", kind=Kind.NUMBER),
                Column(name="leader", kind=Kind.NUMBER),
                Column(name="first_offset", kind=Kind.NUMBER, link=lambda row: link({"start": row["first_offset"]})),
                Column(name="time", kind=Kind.TIME),
                Column(name="voters"),
            ],
            rows=shown,
            paging=paging,
            empty="The log has no record.",
        ),
    )


def _snapshots_section(timeline: MetadataTimeline, request: PageRequest, link: _Link) -> Section:
    rows: list[Row] = [
        {
            "file": one.id.file_name,
            "end_offset": one.id.offset,
            "epoch": one.id.epoch,
            "time": snapshot_time(timeline, one),
            "bytes": one.bytes,
        }
        for one in timeline.snapshots
    ]
    shown, paging = request.query.paged("snapshots", rows[::-1], size=20)
    return Section(
        name="snapshots",
        title="Snapshots",
        text=(
            "A snapshot has the result of all records below its end offset. The log below the oldest snapshot may be"
            " deleted. The time is that of the last record in it."
        ),
        table=Table(
            columns=[
                Column(name="file", kind=Kind.CODE),
                Column(name="end_offset", kind=Kind.NUMBER, link=lambda row: link({"start": row["end_offset"]})),
                Column(name="epoch", kind=Kind.NUMBER),
                Column(name="time", kind=Kind.TIME),
                Column(name="bytes", title="size", kind=Kind.BYTES),
            ],
            rows=shown,
            paging=paging,
            empty="There is no snapshot.",
        ),
    )
