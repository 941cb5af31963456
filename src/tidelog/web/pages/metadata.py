"""The page of the cluster metadata: a table for each kind, from the newest copy among the given directories.

Finding the newest copy and replaying it take a while with many partitions, so both are work in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from tidelog.inspect.metadata_copies import MetadataCopy, metadata_log_bytes, newest_first, survey_metadata_copy
from tidelog.model import TidelogError
from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.server.metadata.kraft.metadata_rows import KINDS, Fields, metadata_rows
from tidelog.server.metadata.kraft.metadata_view import MetadataView, read_metadata
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_FILE
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.web import urls
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Row, Section, Table
from tidelog.web.reports.cluster_facts import is_live
from tidelog.web.reports.held_logs import HeldLogs
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir

T = TypeVar("T")
_FEW: Final = 10
"""The rows of a kind on the page of all kinds."""
_LONGEST: Final = 500
_TITLES: Final[Mapping[str, str]] = {
    "quorum": "Quorum",
    "feature": "Features",
    "broker": "Brokers",
    "topic": "Topics",
    "partition": "Partitions",
    "config": "Configs",
    "user": "SCRAM users",
    "acl": "Access control entries",
    "token": "Delegation tokens",
    "quota": "Client quotas",
    "newer": "Records of a later release",
}
_NAMES: Final = {"quorum": "voter", "config": "resource", "acl": "principal", "newer": "record", "quota": "entity"}
"""The column title for the names of a kind, if it is not the kind itself."""
_NOT_SHOWN: Final = frozenset({("quota", "entity"), ("partition", "topic"), ("partition", "partition")})
"""Fields that repeat parts of the name."""
_OFTEN_EMPTY: Final = frozenset({"adding", "removing", "elr", "rack", "release", "directories"})
"""Fields that are columns only if a row has a value."""
_CODES: Final = frozenset(
    {"topic_id", "directory_id", "endpoints", "listeners", "log_dirs", "directories", "id", "value"}
)
_TIMES: Final = frozenset({"issued", "expires", "max_time"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    """The metadata of one directory, with the name and the fields of each row by kind."""

    log_dir: LogDir
    view: MetadataView
    rows: Mapping[str, Sequence[tuple[str, Fields]]]
    read_at_ms: int


def metadata_copies(request: PageRequest) -> Finished[list[MetadataCopy]]:
    """Return the copies of the metadata log in the given directories, the newest first. Raise StillRunningError."""

    def work(progress: JobProgress) -> list[MetadataCopy]:
        log_dirs = request.sources.log_dirs
        progress.expect(sum(metadata_log_bytes(one.fs, one.path) for one in log_dirs))
        found = [survey_metadata_copy(one.fs, one.path, progress.advance) for one in log_dirs]
        return newest_first(one for one in found if one is not None)

    is_held = is_live(request)
    return request.job(
        "metadata copies",
        work,
        title="looking for the newest copy of the metadata",
        signature=is_held or request.sources.metadata_signature(),
        max_age_ms=LIVE_AGE_MS if is_held else None,
    )


def metadata_job(
    request: PageRequest, name: str, log_dir: LogDir, work: Callable[[JobProgress], T], *, title: str
) -> Finished[T]:
    """Return the result of work on a directory's metadata log. Raise StillRunningError."""

    def counted(progress: JobProgress) -> T:
        progress.expect(metadata_log_bytes(log_dir.fs, log_dir.path))
        return work(progress)

    path = log_dir.path / METADATA_DIRECTORY
    is_held = log_dir.is_held
    has_log = log_dir.fs.exists(path)
    return request.job(
        (name, log_dir.key),
        counted,
        title=title,
        signature=is_held or (tuple(log_dir.fs.list_sizes(path).items()) if has_log else None),
        max_age_ms=LIVE_AGE_MS if is_held else None,
    )


def log_dir_of(request: PageRequest, copy: MetadataCopy) -> LogDir:
    """Return the log directory of a copy."""
    return next(one for one in request.sources.log_dirs if one.path == copy.log_directory)


def metadata_page(request: PageRequest) -> Page:
    """Return the page. Without any metadata it has the directories alone."""
    copies = metadata_copies(request).value
    found, notes = _read(request, copies)
    kind = request.query.choice("kind", ("", *KINDS), "")
    wanted = request.query.text("name")
    sections = [_copies_section(request, copies, None if found is None else found.log_dir)]
    if found is None:
        notes = [*notes, _no_metadata(request)]
    else:
        notes = [*notes, *_notes(found, request)]
        held = HeldLogs.of(request.sources)
        shown = [kind] if kind else [one for one in KINDS if found.rows[one]]
        sections = [
            *(_kind_section(request, found, one, wanted, held, is_alone=bool(kind)) for one in shown),
            *([] if kind else sections),
        ]
    return Page(
        title=f"Metadata: {_TITLES[kind].lower()}" if kind else "Metadata",
        trail=[Link("Cluster", urls.CLUSTER), *([Link("Metadata", urls.METADATA)] if kind else [])],
        facts=[] if found is None else _facts(request, found),
        form=_form(request, copies, found, kind, wanted),
        notes=notes,
        links=[Link("Timeline", urls.METADATA_LOG)] if copies else [],
        sections=sections,
    )


def _read(request: PageRequest, copies: Sequence[MetadataCopy]) -> tuple[_Metadata | None, list[str]]:
    """Return the wanted copy, or else the newest readable copy, with sentences about the unreadable copies."""
    wanted = request.query.choice("dir", ["", *(one.key for one in request.sources.log_dirs)], "")
    candidates = [log_dir_of(request, one) for one in copies]
    candidates += [one for one in request.sources.log_dirs if one.fs.exists(one.path / BOOTSTRAP_FILE)]
    if wanted:
        candidates = [one for one in candidates if one.key == wanted]
    notes = []
    for log_dir in dict.fromkeys(candidates):
        try:
            found = _read_one(request, log_dir)
        except TidelogError as error:
            notes.append(f"The metadata in {log_dir.path} cannot be read: {error}.")
            continue
        if found is not None:
            return found, notes
    return None, notes


def _read_one(request: PageRequest, log_dir: LogDir) -> _Metadata | None:
    def work(progress: JobProgress) -> tuple[MetadataView, dict[str, list[tuple[str, Fields]]]] | None:
        view = read_metadata(log_dir.fs, log_dir.path, advance=progress.advance)
        if view is None:
            return None
        rows: dict[str, list[tuple[str, Fields]]] = {kind: [] for kind in KINDS}
        for kind, name, fields in metadata_rows(view):
            rows[kind].append((name, fields))
        return view, rows

    made = metadata_job(request, "metadata of", log_dir, work, title="reading the cluster metadata")
    if made.value is None:
        return None
    return _Metadata(log_dir=log_dir, view=made.value[0], rows=made.value[1], read_at_ms=made.made_at_ms)


def _no_metadata(request: PageRequest) -> str:
    if request.query.text("dir"):
        return "This directory has no metadata that can be read."
    return (
        "No given directory has cluster metadata, neither __cluster_metadata-0 nor bootstrap.checkpoint. It is in the"
        " directory that metadata.log.dir names, or else in the first of log.dirs. A broker with ZooKeeper had none,"
        " because its metadata was in ZooKeeper. Below is the content of meta.properties."
    )


def _notes(found: _Metadata, request: PageRequest) -> Iterator[str]:
    if found.view.is_empty:
        yield "The metadata log is empty: these are the first records of the new cluster."
    count = len(found.view.image.skipped_records)
    if count:
        yield f"{count:,} records are of a later release of Kafka. They are shown raw, and have no effect here."
    clusters = sorted({meta.cluster_id for one in request.sources.log_dirs if (meta := one.meta()) and meta.cluster_id})
    if len(clusters) > 1:
        yield (
            f"The given directories belong to {len(clusters):,} clusters ({', '.join(clusters)}). This is the metadata"
            f" of {found.log_dir.path}."
        )


def _facts(request: PageRequest, found: _Metadata) -> list[Fact]:
    view, meta = found.view, found.log_dir.meta()
    leader = None if view.state is None or view.state.leader_id < 0 else view.state.leader_id
    return [
        Fact(
            name="directory",
            title="newest copy" if not request.query.text("dir") else "copy",
            value=str(found.log_dir.path),
            kind=Kind.CODE,
            url=urls.log_dir_url(found.log_dir.key),
        ),
        Fact(name="cluster_id", title="cluster", value=None if meta is None else meta.cluster_id, kind=Kind.CODE),
        Fact(
            name="end_offset",
            title="up to offset",
            value=view.end_offset,
            kind=Kind.NUMBER,
            url=urls.with_query(urls.METADATA_LOG, {"dir": found.log_dir.key}),
            help="The metadata is the result of all records below this offset",
        ),
        Fact(name="epoch", title="epoch of the quorum", value=view.epoch, kind=Kind.NUMBER),
        Fact(name="leader_id", title="leader of the quorum", value=leader, kind=Kind.NUMBER),
        Fact(name="snapshot", value=None if view.snapshot is None else view.snapshot.file_name, kind=Kind.CODE),
        *(
            Fact(name=f"{kind}s", title=_TITLES[kind].lower(), value=len(found.rows[kind]), kind=Kind.NUMBER)
            for kind in ("broker", "topic", "partition")
        ),
        Fact(name="read_at", value=found.read_at_ms, kind=Kind.TIME),
    ]


def _form(
    request: PageRequest, copies: Sequence[MetadataCopy], found: _Metadata | None, kind: str, wanted: str
) -> list[FormField]:
    if found is None:
        return []
    kinds = [Choice(value="", title="all kinds"), *(Choice(value=one, title=_TITLES[one]) for one in KINDS)]
    fields = [
        FormField(name="kind", title="Kind", value=kind, choices=kinds),
        FormField(name="name", title="Name", value=wanted, hint="part of a name"),
    ]
    if len(copies) > 1:
        choices = [Choice(value=log_dir_of(request, one).key, title=str(one.log_directory)) for one in copies]
        chosen = request.query.text("dir")
        fields.append(
            FormField(name="dir", title="Copy", value=chosen, choices=[Choice(value="", title="the newest"), *choices])
        )
    return fields


def _copies_section(request: PageRequest, copies: Sequence[MetadataCopy], chosen: LogDir | None) -> Section:
    end = max((one.end_offset for one in copies if one.error is None), default=0)
    by_path = {one.log_directory: one for one in copies}
    rows = [_copy_row(one, by_path.get(one.path), end, is_shown=one is chosen) for one in request.sources.log_dirs]
    return Section(
        name="copies",
        title="Copies of the metadata log",
        text=(
            "Every broker and controller keeps a copy, and a copy may lag. The newest one has the highest epoch, and"
            " then the highest end."
        ),
        table=Table(
            columns=[
                Column(
                    name="path", title="directory", kind=Kind.CODE, link=lambda row: urls.log_dir_url(str(row["key"]))
                ),
                Column(name="node_id", title="node", kind=Kind.NUMBER),
                Column(name="cluster_id", title="cluster", kind=Kind.CODE),
                Column(name="directory_id", kind=Kind.CODE),
                Column(name="is_shown", title="shown here"),
                Column(name="epoch", kind=Kind.NUMBER),
                Column(name="log_start", kind=Kind.NUMBER),
                Column(name="end_offset", title="log end", kind=Kind.NUMBER, link=_copy_url),
                Column(name="behind", kind=Kind.NUMBER, help="Records that the newest copy has and this one lacks"),
                Column(name="snapshots", kind=Kind.NUMBER),
                Column(name="leader_id", title="leader", kind=Kind.NUMBER, help="The leader in quorum-state"),
                Column(name="error"),
            ],
            rows=rows,
        ),
    )


def _copy_url(row: Row) -> str | None:
    return None if row["end_offset"] is None else urls.with_query(urls.METADATA_LOG, {"dir": row["key"]})


def _copy_row(log_dir: LogDir, copy: MetadataCopy | None, end: int, *, is_shown: bool) -> Row:
    meta = log_dir.meta()
    state = None if copy is None else copy.state
    return {
        "key": log_dir.key,
        "path": str(log_dir.path),
        "node_id": None if meta is None else meta.node_id,
        "cluster_id": None if meta is None else meta.cluster_id,
        "directory_id": None if meta is None or meta.directory_id is None else uuid_to_text(meta.directory_id),
        "meta_version": None if meta is None else meta.version,
        "is_shown": is_shown,
        "epoch": None if copy is None else copy.epoch,
        "log_start": None if copy is None else copy.log_start,
        "end_offset": None if copy is None else copy.end_offset,
        "behind": None if copy is None else max(0, end - copy.end_offset),
        "snapshots": None if copy is None else len(copy.snapshots),
        "leader_id": None if state is None or state.leader_id < 0 else state.leader_id,
        "error": "no metadata log" if copy is None else None if copy.error is None else str(copy.error),
    }


def _kind_section(
    request: PageRequest, found: _Metadata, kind: str, wanted: str, held: HeldLogs, *, is_alone: bool
) -> Section:
    items = [one for one in found.rows[kind] if wanted.lower() in one[0].lower()]
    fields = list(items[0][1]) if items else []
    columns = [
        name
        for name in fields
        if (kind, name) not in _NOT_SHOWN and (name not in _OFTEN_EMPTY or any(one[1][name] for one in items))
    ]
    keys: dict[str, Callable[[tuple[str, Fields]], Any]] = {"name": lambda one: one[0]}
    keys |= {name: partial(_sort_key, name) for name in columns if not isinstance(items[0][1][name], list)}
    shown, paging = request.query.paged(kind, items, keys=keys, size=100 if is_alone else _FEW)
    links = []
    if not is_alone and paging.total > paging.size:
        query = {"kind": kind, "name": wanted or None, "dir": request.query.text("dir") or None}
        links = [Link(f"All {paging.total:,}", urls.with_query(urls.METADATA, query))]
    return Section(
        name=kind,
        title=_TITLES[kind],
        links=links,
        table=Table(
            columns=[
                Column(name="name", title=_NAMES.get(kind, kind), kind=Kind.CODE, link=partial(_name_url, kind, held)),
                *(_column(kind, name, items[0][1][name]) for name in columns),
            ],
            rows=[{"name": name, **_shortened(values)} for name, values in shown],
            paging=paging,
            empty="No name matches." if wanted else "The metadata has none.",
        ),
    )


def _sort_key(name: str, item: tuple[str, Fields]) -> Any:
    value = item[1].get(name)
    return str(value) if isinstance(value, str | bool) else value


def _column(kind: str, name: str, example: object) -> Column:
    plain = Kind.NUMBER if isinstance(example, int | float) and not isinstance(example, bool) else Kind.TEXT
    if name in _TIMES:
        return Column(name=name, kind=Kind.TIME)
    if name in _CODES:
        return Column(
            name=name, kind=Kind.CODE, link=_changes_of_topic if (kind, name) == ("topic", "topic_id") else None
        )
    if kind == "partition" and name in ("leader", "isr"):
        return Column(name=name, kind=plain, link=_changes_of_partition, help="The changes of this partition")
    if kind == "broker" and name == "epoch":
        return Column(name=name, kind=plain, link=_changes_of_broker, help="The changes of this broker")
    return Column(name=name, kind=plain)


def _changes_of_topic(row: Row) -> str:
    return urls.with_query(urls.METADATA_LOG, {"topic": row["name"]})


def _changes_of_partition(row: Row) -> str:
    return urls.with_query(urls.METADATA_LOG, {"topic": row["topic"], "partition": row["partition"]})


def _changes_of_broker(row: Row) -> str:
    return urls.with_query(urls.METADATA_LOG, {"broker": row["name"]})


def _name_url(kind: str, held: HeldLogs, row: Row) -> str | None:
    name = str(row["name"])
    match kind:
        case "topic":
            return urls.topic_url(name) if held.has_topic(name) else None
        case "partition":
            return held.partition_url(name)
        case "config" if name.startswith("topic "):
            topic = name.removeprefix("topic ")
            return urls.topic_url(topic) if held.has_topic(topic) else None
    return None


def _shortened(fields: Fields) -> dict[str, object]:
    return {
        name: f"{value[:_LONGEST]}… ({len(value):,} characters in all)"
        if isinstance(value, str) and len(value) > _LONGEST
        else value
        for name, value in fields.items()
    }
