"""The first page: the log directories, how they were stopped, and the space of each topic.

Reading the sizes of all files takes seconds with 100,000 segments. It goes on in the background, and the page shows
the rest meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.inspect.space import PartitionSpace, survey_space
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.storage.segment.file_names import DirectoryPurpose
from tidelog.web import urls
from tidelog.web.jobs import LIVE_AGE_MS, JobProgress, StillRunningError
from tidelog.web.page import Column, Fact, FormField, Kind, Page, Picture, Row, Section, Table
from tidelog.web.pages.row_links import topic_column
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.sources import LogDir
from tidelog.web.svg.bars import draw_bars

_MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class _Listed:
    """A log directory as its names and small files show it."""

    log_dir: LogDir
    state: DirectoryState
    names: Sequence[str]


def cluster_page(request: PageRequest) -> Page:
    """Return the page of all given log directories."""
    listed = [_Listed(one, one.state(), [name for name, _ in one.directories()]) for one in request.sources.log_dirs]
    spaces, note = _spaces(request, listed)
    topics = _topic_rows(listed, spaces)
    wanted = request.query.text("topic")
    shown = [row for row in topics if wanted.lower() in str(row["topic"]).lower()]
    rows, paging = request.query.paged(
        "topics",
        shown,
        keys={name: _key(name) for name in ("topic", "partitions", "segments", "bytes")},
        sort="topic" if spaces is None else "-bytes",
    )
    return Page(
        title="Cluster" if len(listed) > 1 else "Log directory",
        facts=_facts(listed, topics, spaces),
        form=[FormField(name="topic", title="Topic", value=wanted, hint="part of a name")],
        notes=[*note, *(f"{warning}." for one in listed for warning in one.state.warnings)],
        sections=[
            _log_dirs_section(listed, spaces),
            Section(
                name="topics",
                title="Topics",
                picture=_bars([row for row in shown if row["bytes"]]),
                table=Table(
                    columns=[
                        topic_column(),
                        Column(name="partitions", kind=Kind.NUMBER),
                        Column(name="logs", kind=Kind.NUMBER, help="Logs of its partitions in the given directories"),
                        Column(name="segments", kind=Kind.NUMBER),
                        Column(name="bytes", title="space", kind=Kind.BYTES),
                    ],
                    rows=rows,
                    paging=paging,
                    empty="No topic matches." if wanted else "There are no partitions here.",
                ),
            ),
        ],
        refresh_seconds=1 if spaces is None else None,
    )


def space_of_all(request: PageRequest) -> Mapping[str, Sequence[PartitionSpace]]:
    """Return the space of each log directory's partitions by its key. Raise StillRunningError."""
    listed = [_Listed(one, one.state(), [name for name, _ in one.directories()]) for one in request.sources.log_dirs]
    return _survey(request, listed)


def _spaces(
    request: PageRequest, listed: Sequence[_Listed]
) -> tuple[Mapping[str, Sequence[PartitionSpace]] | None, Sequence[str]]:
    try:
        return _survey(request, listed), ()
    except StillRunningError as running:
        share = running.progress.share or 0
        return None, [f"The sizes of files are being read: {share:.0%} of the partitions are done."]


def _survey(request: PageRequest, listed: Sequence[_Listed]) -> Mapping[str, Sequence[PartitionSpace]]:
    def work(progress: JobProgress) -> dict[str, list[PartitionSpace]]:
        progress.expect(sum(len(one.names) for one in listed), "logs")
        return {
            one.log_dir.key: survey_space(one.log_dir.fs, one.log_dir.path, one.names, progress.advance)
            for one in listed
        }

    is_held = any(one.state.condition is DirectoryCondition.HELD for one in listed)
    return request.job(
        "space",
        work,
        title="reading the sizes of files",
        signature=tuple(tuple(one.names) for one in listed),
        max_age_ms=LIVE_AGE_MS if is_held else None,
    ).value


def _facts(
    listed: Sequence[_Listed], topics: Sequence[Row], spaces: Mapping[str, Sequence[PartitionSpace]] | None
) -> list[Fact]:
    clusters = sorted({meta.cluster_id for one in listed if (meta := one.log_dir.meta()) and meta.cluster_id})
    total = None if spaces is None else sum(one.bytes for found in spaces.values() for one in found)
    segments = None if spaces is None else sum(one.segments for found in spaces.values() for one in found)
    return [
        Fact(name="cluster_id", title="cluster", value=", ".join(clusters) or None, kind=Kind.CODE),
        Fact(name="log_dirs", title="log directories", value=len(listed), kind=Kind.NUMBER),
        Fact(name="topics", value=len(topics), kind=Kind.NUMBER),
        Fact(name="logs", value=sum(len(one.names) for one in listed), kind=Kind.NUMBER),
        Fact(name="segments", value=segments, kind=Kind.NUMBER),
        Fact(name="bytes", title="space", value=total, kind=Kind.BYTES),
    ]


def _log_dirs_section(listed: Sequence[_Listed], spaces: Mapping[str, Sequence[PartitionSpace]] | None) -> Section:
    rows = [_log_dir_row(one, None if spaces is None else spaces[one.log_dir.key]) for one in listed]
    return Section(
        name="log_dirs",
        title="Log directories",
        table=Table(
            columns=[
                Column(name="path", kind=Kind.CODE, link=lambda row: urls.log_dir_url(str(row["key"]))),
                Column(name="node_id", title="node", kind=Kind.NUMBER),
                Column(name="condition", title="last shutdown"),
                Column(name="next_start", title="next start"),
                Column(name="logs", kind=Kind.NUMBER),
                Column(name="bytes", title="space", kind=Kind.BYTES),
            ],
            rows=rows,
        ),
    )


def _log_dir_row(one: _Listed, space: Sequence[PartitionSpace] | None) -> Row:
    meta = one.log_dir.meta()
    return {
        "key": one.log_dir.key,
        "path": str(one.log_dir.path),
        "node_id": None if meta is None else meta.node_id,
        "cluster_id": None if meta is None else meta.cluster_id,
        "directory_id": None if meta is None or meta.directory_id is None else uuid_to_text(meta.directory_id),
        "condition": condition_text(one.state),
        "next_start": _next_start(one.state),
        "logs": len(one.names),
        "bytes": None if space is None else sum(found.bytes for found in space),
    }


def condition_text(state: DirectoryState) -> str:
    """Return the way in which a log directory was stopped, or that it is in use."""
    match state.condition:
        case DirectoryCondition.HELD:
            return f"running (process {state.holder})"
        case DirectoryCondition.CLEAN:
            return "clean"
        case DirectoryCondition.UNCLEAN:
            return "unclean"


def _next_start(state: DirectoryState) -> str:
    match state.condition:
        case DirectoryCondition.HELD:
            return "no start while the process runs"
        case DirectoryCondition.CLEAN:
            return "load every log as it is"
        case DirectoryCondition.UNCLEAN:
            return "recover every log from its recovery point on"


def _topic_rows(
    listed: Sequence[_Listed], spaces: Mapping[str, Sequence[PartitionSpace]] | None
) -> list[dict[str, object]]:
    partitions: dict[str, set[int]] = defaultdict(set)
    logs: dict[str, int] = defaultdict(int)
    for one in listed:
        for _, parsed in one.log_dir.directories():
            if parsed.purpose is DirectoryPurpose.LIVE:
                partitions[parsed.topic_partition.topic].add(parsed.topic_partition.partition)
                logs[parsed.topic_partition.topic] += 1
    segments: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for found in (spaces or {}).values():
        for space in found:
            if space.purpose is DirectoryPurpose.LIVE:
                segments[space.partition.topic] += space.segments
                sizes[space.partition.topic] += space.bytes
    return [
        {
            "topic": topic,
            "partitions": len(partitions[topic]),
            "logs": logs[topic],
            "segments": None if spaces is None else segments[topic],
            "bytes": None if spaces is None else sizes[topic],
        }
        for topic in sorted(partitions)
    ]


def _bars(rows: Sequence[Row]) -> Picture | None:
    if not rows:
        return None
    largest = sorted(rows, key=lambda row: -int(str(row["bytes"])))[:_MOST_BARS]
    items = [{"topic": row["topic"], "bytes": row["bytes"]} for row in largest]
    return Picture(
        items=items,
        draw=lambda: draw_bars(
            items,
            title="Space by topic",
            name="topic",
            value="bytes",
            text=size_text,
            url=lambda item: urls.topic_url(str(item["topic"])),
        ),
    )


def _key(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name]
