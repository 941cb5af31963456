"""The page of one log for the cleaner: its segments in the next clean, the clean's effect, and the tombstones.

The effect and the tombstones need all records. Small logs are read at once, others on request (``read=1``), both in the
background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidelog.inspect.compaction.cleaner_keys import KnownCleaner, known_cleaner
from tidelog.inspect.compaction.segment_parts import CleaningPart, SegmentPart, segment_parts
from tidelog.inspect.compaction.sentences import place_text, reason_text
from tidelog.inspect.compaction.tombstones import SegmentTombstones, count_tombstones, total_of
from tidelog.inspect.compaction.trial_clean import TrialClean, TrialSegment, try_clean
from tidelog.model import ConfigError, TidelogError, TopicPartition
from tidelog.storage.cleaner.plan.log_plan import LogPlan
from tidelog.storage.log.view.row_stream import SkippedRange
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.web import urls
from tidelog.web.jobs import Finished, JobProgress, StillRunningError
from tidelog.web.page import Column, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.log_cleaner_facts import log_facts
from tidelog.web.reports.cluster_facts import known_settings
from tidelog.web.reports.compaction_plans import CHECKED_UNASKED_BYTES, plan_of_log
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.svg.cleaning_bar import draw_cleaning_bar
from tidelog.web.svg.runs import runs_of

_READ = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """The results of reading all records. ``trial`` is None for a log without dirty bytes."""

    trial: TrialClean | None
    tombstones: Sequence[SegmentTombstones]
    skipped: Sequence[SkippedRange]


def log_cleaner_page(request: PageRequest) -> Page:
    """Return the page of one log's compaction."""
    partition = request.partition
    if request.log_name != partition.directory_name:
        return _bare_page(request, partition, "The cleaner only works on live logs, and this directory is not one.")
    try:
        policy = known_settings(request)[request.log_dir.key].of_topic(partition.topic).config
    except ConfigError as error:
        return _bare_page(request, partition, f"The settings of the topic cannot be read: {error}.")
    if not policy.is_compacted:
        text = ",".join(sorted(policy.cleanup_policy)) or "empty"
        return _bare_page(request, partition, f"The cleanup.policy of the topic is {text}: the cleaner skips the log.")
    made = plan_of_log(request, partition)
    found = next(iter(made.value.logs), None)
    if found is None:
        return _bare_page(
            request, partition, "The cluster metadata's log is not cleaned: snapshots replace its records."
        )
    if found.plan is None:
        return _bare_page(request, partition, f"{reason_text(found)}.")
    return _page(request, made.made_at_ms, found, found.plan)


def _bare_page(request: PageRequest, partition: TopicPartition, note: str) -> Page:
    return Page(title="Cleaner", trail=_trail(request, partition), notes=[note])


def _trail(request: PageRequest, partition: TopicPartition) -> list[Link]:
    log_dir = request.log_dir
    return [
        Link("Cluster", urls.CLUSTER),
        Link(partition.topic, urls.topic_url(partition.topic)),
        Link(str(log_dir.path), urls.log_dir_url(log_dir.key)),
        Link(request.log_name, urls.log_url(log_dir.key, request.log_name)),
    ]


def _page(request: PageRequest, made_at_ms: int, found: CompactionOutlook, plan: LogPlan) -> Page:
    cleaner = known_cleaner(known_settings(request)[request.log_dir.key])
    parts = segment_parts(plan, request.log_dir.fs.list_sizes(request.log_dir.path / request.log_name))
    records, notes = _records(request, made_at_ms, found, plan, cleaner)
    trial = None if records is None else records.trial
    own_url = urls.log_part_url(request.log_dir.key, request.log_name, "cleaner")
    return Page(
        title="Cleaner",
        trail=_trail(request, found.partition),
        facts=log_facts(found, plan, made_at_ms, cleaner, trial),
        links=[
            Link("Read again", urls.with_query(own_url, {"newer": request.now_ms})),
            Link("All compacted logs", urls.CLEANER),
        ],
        notes=[*notes, *(f"{warning.removesuffix('.')}." for warning in plan.warnings), *_record_notes(records)],
        sections=[
            _segments_section(request, plan, parts, trial),
            _groups_section(request, parts, trial),
            *([] if records is None else [_tombstones_section(request, records.tombstones)]),
        ],
        refresh_seconds=1 if any("being read" in note for note in notes) else None,
    )


def _records(
    request: PageRequest, made_at_ms: int, found: CompactionOutlook, plan: LogPlan, cleaner: KnownCleaner
) -> tuple[_Records | None, list[str]]:
    """Return the results of reading the records, or None with a note about it."""
    size = sum(segment.size_bytes for segment in plan.facts.segments)
    is_asked = request.query.flag(_READ)
    log_dir, name = request.log_dir, request.log_name
    if size > CHECKED_UNASKED_BYTES and not is_asked:
        how = urls.with_query(urls.log_part_url(log_dir.key, name, "cleaner"), {_READ: 1})
        return None, [f"The records ({size_text(size)}) were not read: {how} counts keys and tombstones."]

    def work(progress: JobProgress) -> _Records:
        progress.expect(size + plan.dirty_bytes + (plan.reclaimable_bytes if plan.dirty_bytes else 0))
        view = log_dir.view(name)
        now_ms = plan.facts.now_ms
        tombstones, skipped = count_tombstones(view, found.high_watermark, now_ms=now_ms, advance=progress.advance)
        has_dirty = bool(plan.dirty_bytes)
        trial = try_clean(view, found, cleaner.settings, now_ms=now_ms, advance=progress.advance) if has_dirty else None
        return _Records(trial=trial, tombstones=tombstones, skipped=skipped)

    try:
        made: Finished[_Records] = request.job(
            ("cleaner records", log_dir.key, name), work, title=f"reading the records of {name}", signature=made_at_ms
        )
    except StillRunningError as running:
        share = running.progress.share or 0
        return None, [f"The records are being read: {share:.0%} of the bytes."]
    except TidelogError as error:
        return None, [f"The records cannot be read: {error}."]
    return made.value, []


def _record_notes(records: _Records | None) -> list[str]:
    if records is None:
        return []
    notes = []
    if records.trial is not None and records.trial.stopped_by is not None:
        notes.append(f"The next clean will fail: {place_text(records.trial.stopped_by)}.")
    keyless = 0 if records.trial is None else sum(segment.keyless for segment in records.trial.segments)
    if keyless:
        notes.append(f"{keyless:,} records have no key: the next clean drops them.")
    notes += [
        f"{damage.size_bytes:,} bytes at position {damage.position:,} of {damage.path.name} were left out:"
        f" {damage.reason}."
        for damage in records.skipped[:10]
    ]
    return notes


def _segments_section(
    request: PageRequest, plan: LogPlan, parts: Sequence[SegmentPart], trial: TrialClean | None
) -> Section:
    tried = {} if trial is None else {segment.base_offset: segment for segment in trial.segments}
    shown, paging = request.query.paged(
        "segments",
        parts,
        keys={"base_offset": lambda part: part.base_offset, "bytes": lambda part: part.size_bytes},
    )
    key, name = request.log_dir.key, request.log_name
    columns = [
        Column(
            name="base_offset",
            kind=Kind.NUMBER,
            link=lambda row: urls.segment_url(key, name, int(str(row["base_offset"]))),
        ),
        Column(name="end_offset", kind=Kind.NUMBER),
        Column(name="bytes", kind=Kind.BYTES),
        Column(name="part"),
        Column(name="next_clean", title="in the next clean"),
        Column(name="group", title="new segment", kind=Kind.NUMBER),
        Column(name="records", kind=Kind.NUMBER, help="Without the data of aborted transactions"),
        Column(name="records_kept", kind=Kind.NUMBER),
        Column(name="bytes_freed", title="frees", kind=Kind.BYTES),
    ]
    return Section(
        name="segments",
        title="Segments in the next clean",
        text=(
            "The bar is the log from its oldest segment to the active one, as wide as its bytes. A clean reads the keys"
            " of the dirty part and rewrites everything before its end: clean segments lose the records that a dirty"
            " record replaced. A bracket joins the segments that become one new segment."
        ),
        picture=_picture(plan, parts),
        table=Table(columns=columns, rows=[_segment_row(part, tried) for part in shown], paging=paging),
    )


def _segment_row(part: SegmentPart, tried: Mapping[int, TrialSegment]) -> Row:
    trial = tried.get(part.base_offset)
    return {
        "base_offset": part.base_offset,
        "end_offset": part.end_offset,
        "bytes": part.size_bytes,
        "part": part.part.value,
        "active": part.is_active,
        "next_clean": _role_text(part),
        "group": None if part.group is None else part.group + 1,
        "records": None if trial is None else trial.records_read,
        "records_kept": None if trial is None else trial.records_kept,
        "bytes_freed": None if trial is None else trial.bytes_read - trial.bytes_kept,
    }


def _role_text(part: SegmentPart) -> str:
    if part.is_active:
        return "not touched: the active segment"
    if part.group is None:
        return "not touched"
    return "rewritten" if part.part is CleaningPart.CLEAN else "read for its keys, then rewritten"


def _picture(plan: LogPlan, parts: Sequence[SegmentPart]) -> Picture | None:
    if not parts:
        return None
    items = [*(_run_row(run) for run in runs_of(parts, lambda part: part.part)), *_borders(plan, parts)]
    return Picture(items=items, draw=lambda: draw_cleaning_bar(items))


def _run_row(run: Sequence[SegmentPart]) -> Row:
    groups = [part.group for part in run if part.group is not None]
    return {
        "kind": "segment",
        "base_offset": run[0].base_offset,
        "end_offset": run[-1].end_offset,
        "segments": len(run),
        "bytes": sum(part.size_bytes for part in run),
        "part": run[0].part.value,
        "groups": [groups[0], groups[-1]] if groups else None,
    }


def _borders(plan: LogPlan, parts: Sequence[SegmentPart]) -> list[Row]:
    """Return the offsets that bound the next clean, each with the bytes before it."""
    offsets = {
        "first dirty offset": plan.first_dirty_offset,
        "end of the clean": plan.end_offset,
        "log end": plan.facts.end_offset,
    }
    if plan.first_uncleanable_offset not in offsets.values():
        offsets["first uncleanable offset"] = plan.first_uncleanable_offset
    positions = {name: round(_position(parts, offset)) for name, offset in offsets.items()}
    return [
        {"kind": "border", "name": name, "offset": offsets[name], "bytes_before": positions[name]}
        for name in sorted(offsets, key=lambda name: positions[name])
    ]


def _position(parts: Sequence[SegmentPart], offset: int) -> float:
    """Return the bytes below an offset; inside of a segment, its share of the segment's offsets decides."""
    position = 0.0
    for part in parts:
        if offset >= part.end_offset:
            position += part.size_bytes
        elif offset > part.base_offset:
            share = (offset - part.base_offset) / (part.end_offset - part.base_offset)
            return position + share * part.size_bytes
    return position


def _groups_section(request: PageRequest, parts: Sequence[SegmentPart], trial: TrialClean | None) -> Section:
    tried = {} if trial is None else {segment.base_offset: segment for segment in trial.segments}
    groups: dict[int, list[SegmentPart]] = {}
    for part in parts:
        if part.group is not None:
            groups.setdefault(part.group, []).append(part)
    shown, paging = request.query.paged("groups", sorted(groups))
    columns = [
        Column(name="group", title="new segment", kind=Kind.NUMBER),
        Column(name="base_offset", kind=Kind.NUMBER),
        Column(name="segments", title="old segments", kind=Kind.NUMBER),
        Column(name="bytes", title="old bytes", kind=Kind.BYTES),
        Column(name="bytes_kept", title="new bytes", kind=Kind.BYTES),
    ]
    rows = [_group_row(group, groups[group], tried) for group in shown]
    return Section(
        name="groups",
        title="New segments",
        text=(
            "A clean joins old segments into a new one as long as segment.bytes, segment.index.bytes and the range of"
            " offsets allow it, by the old sizes."
        ),
        table=Table(columns=columns, rows=rows, paging=paging, empty="No segment is rewritten: nothing is dirty."),
    )


def _group_row(group: int, parts: Sequence[SegmentPart], tried: Mapping[int, TrialSegment]) -> Row:
    trials = [tried[part.base_offset] for part in parts if part.base_offset in tried]
    return {
        "group": group + 1,
        "base_offset": parts[0].base_offset,
        "segments": len(parts),
        "bytes": sum(part.size_bytes for part in parts),
        "bytes_kept": sum(trial.bytes_kept for trial in trials) if trials else None,
    }


def _tombstones_section(request: PageRequest, found: Sequence[SegmentTombstones]) -> Section:
    total = total_of(found)
    shown, paging = request.query.paged("tombstones", found)
    key, name = request.log_dir.key, request.log_name
    columns = [
        Column(
            name="base_offset",
            title="segment",
            kind=Kind.NUMBER,
            link=lambda row: urls.segment_url(key, name, int(str(row["base_offset"]))),
        ),
        Column(name="tombstones", kind=Kind.NUMBER),
        Column(name="without_horizon", kind=Kind.NUMBER, help="No clean has read them yet"),
        Column(name="passed", title="horizon passed", kind=Kind.NUMBER, help="The next clean removes them"),
        Column(name="first_horizon", kind=Kind.TIME),
        Column(name="last_horizon", kind=Kind.TIME),
    ]
    rows = [
        {
            "base_offset": one.base_offset,
            "tombstones": one.count,
            "without_horizon": one.without_horizon,
            "passed": one.passed,
            "first_horizon": one.first_horizon_ms,
            "last_horizon": one.last_horizon_ms,
        }
        for one in shown
    ]
    return Section(
        name="tombstones",
        title=f"Tombstones: {total.count:,}",
        text=(
            "The first clean that reads a tombstone gives it a delete horizon, delete.retention.ms later. The first"
            " clean after the horizon removes it; until then, a consumer that reads from the start still sees it."
        ),
        table=Table(columns=columns, rows=rows, paging=paging, empty="The log has no tombstones."),
    )
