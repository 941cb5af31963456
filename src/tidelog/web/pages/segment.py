"""The page of a segment: its files, the reason why it is still here, the density of its indexes, its batches.

Facts about all batches need all bytes, so they are read in the background. The page shows the rest meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelog.inspect.index_entries import (
    OffsetEntries,
    TimeEntries,
    TransactionEntries,
    read_offset_entries,
    read_time_entries,
    read_transaction_entries,
)
from tidelog.inspect.retention import PartitionRetention, SegmentOutlook
from tidelog.inspect.retention.sentences import goes_text, why_text
from tidelog.inspect.segment_survey import SegmentSurvey, codec_counts
from tidelog.storage.segment.file_names import DirectoryPurpose, FileKind, PartitionDirectoryName, segment_file
from tidelog.web import urls
from tidelog.web.jobs import StillRunningError
from tidelog.web.page import Fact, Kind, Link, Page, Picture, Row, Section
from tidelog.web.pages.segment_tables import SegmentTables
from tidelog.web.reports.judged_log import judge_log
from tidelog.web.reports.segment_place import SegmentPlace, find_segment
from tidelog.web.request import PageRequest
from tidelog.web.svg.density_items import density_items
from tidelog.web.svg.index_density import draw_index_density

_INTERVAL_BYTES = 4096
"""Kafka's default of index.interval.bytes, while the settings are being read."""
_GONE = {
    DirectoryPurpose.DELETE: "Its log is deleted: the broker removes all of its files after file.delete.delay.ms.",
    DirectoryPurpose.STRAY: "Its log is stray: it stays until an operator removes it.",
}
"""The logs to which no rule of retention applies."""


def segment_page(request: PageRequest) -> Page:
    """Return the page of a segment. Raise NotFoundError."""
    place = find_segment(request)
    running: list[str] = []
    survey = _survey(place, running)
    retention = _retention(place, running)
    offsets, times, aborted = _entries(place)
    interval = _INTERVAL_BYTES if retention is None else retention.settings.config.index_interval_bytes
    with place.open() as reader:
        tables = SegmentTables(place, reader, survey)
        batches, notes = tables.batches()
        counts = {
            FileKind.INDEX: len(offsets),
            FileKind.TIME_INDEX: len(times),
            FileKind.TXN_INDEX: len(aborted.entries),
        }
        sections = [
            _why(place, retention),
            _density(place, reader.size, offsets, times, survey, interval),
            tables.tail(),
            batches,
            tables.files(counts),
            tables.index(offsets, interval),
            tables.time_index(times),
            tables.transaction_index(aborted) if not aborted.file.is_missing else None,
        ]
        facts = list(_facts(place, reader.size, survey))
    return Page(
        title=place.title,
        trail=place.trail(),
        facts=facts,
        notes=[*running, *notes, *_damage_notes(survey)],
        sections=[section for section in sections if section is not None],
        links=list(_links(place)),
        refresh_seconds=1 if running else None,
    )


def _survey(place: SegmentPlace, running: list[str]) -> SegmentSurvey | None:
    try:
        return place.survey()
    except StillRunningError as error:
        running.append(f"The batches are being counted: {error.progress.share or 0:.0%} of the segment is read.")
        return None


def _retention(place: SegmentPlace, running: list[str]) -> PartitionRetention | None:
    """Return the outlook of the log's segments. None while it is being made, and for a log that is being removed."""
    if _purpose(place) in _GONE:
        return None
    try:
        return judge_log(place.request).retention
    except StillRunningError:
        running.append("The settings and the times of the segments are being read.")
        return None


def _entries(place: SegmentPlace) -> tuple[OffsetEntries, TimeEntries, TransactionEntries]:
    fs, base = place.view.fs, place.base_offset
    paths = {
        kind: segment_file(place.view.directory, base, kind, place.state)
        for kind in (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
    }
    return (
        read_offset_entries(fs, paths[FileKind.INDEX], base),
        read_time_entries(fs, paths[FileKind.TIME_INDEX], base),
        read_transaction_entries(fs, paths[FileKind.TXN_INDEX], base),
    )


def _facts(place: SegmentPlace, size: int, survey: SegmentSurvey | None) -> Iterator[Fact]:
    following = place.view.state.segments.higher(place.base_offset)
    end_offset = place.view.log_end if following is None else following.base_offset
    yield Fact(name="base_offset", title="base offset", value=place.base_offset, kind=Kind.CODE)
    if place.segment is not None:
        last = end_offset - 1 if end_offset > place.base_offset else None
        yield Fact(name="last_offset", title="last possible offset", value=last, kind=Kind.CODE)
    yield Fact(name="state", value=_state(place))
    yield Fact(name="bytes", title="size of the .log", value=size, kind=Kind.BYTES)
    if survey is None:
        return
    codecs = [f"{name} {count:,}" for name, count in codec_counts(survey).items()]
    transactional = survey.transactional_batches
    yield Fact(name="batches", value=survey.batches, kind=Kind.NUMBER)
    yield Fact(name="records", value=survey.records, kind=Kind.NUMBER)
    yield Fact(name="first_offset", title="first offset", value=survey.first_offset, kind=Kind.CODE)
    yield Fact(name="last_batch_offset", title="last offset", value=survey.last_offset, kind=Kind.CODE)
    yield Fact(name="first_timestamp", title="first timestamp", value=survey.first_timestamp, kind=Kind.TIME)
    yield Fact(name="max_timestamp", title="largest timestamp", value=survey.max_timestamp, kind=Kind.TIME)
    yield Fact(name="codecs", title="batches by codec", value=codecs)
    yield Fact(name="formats", value=[f"v{magic}" for magic in sorted(survey.formats)])
    yield Fact(name="largest_batch", title="largest batch", value=survey.largest_batch, kind=Kind.BYTES)
    yield Fact(name="transactional_batches", title="transactional batches", value=transactional, kind=Kind.NUMBER)
    yield Fact(name="control_batches", title="control batches", value=survey.control_batches, kind=Kind.NUMBER)
    yield Fact(name="damages", title="damaged places", value=survey.damage_count, kind=Kind.NUMBER)


def _state(place: SegmentPlace) -> str:
    if place.segment is None:
        return "no part of the log"
    return "active: appends go here" if place.is_active else "closed"


def _damage_notes(survey: SegmentSurvey | None) -> Iterator[str]:
    if survey is None:
        return
    tail = survey.tail
    for damage in survey.damages[:10]:
        if damage is not tail:
            following = f"; the next batch begins at {damage.next_position:,}" if damage.next_position else ""
            yield f"{damage.size:,} bytes at position {damage.position:,}: {damage.reason}{following}."
    if survey.damage_count > 10:
        yield f"{survey.damage_count - 10:,} more places are damaged."


def _purpose(place: SegmentPlace) -> DirectoryPurpose:
    return PartitionDirectoryName.parse(place.request.log_name).purpose


def _why(place: SegmentPlace, retention: PartitionRetention | None) -> Section:
    request = place.request
    return Section(
        name="why",
        title="Why it is still here",
        text=_why_text(place, retention),
        links=[Link("All segments of the log", urls.log_url(request.log_dir.key, request.log_name))],
    )


def _why_text(place: SegmentPlace, retention: PartitionRetention | None) -> str:
    """Return the reason in one sentence."""
    if place.segment is None:
        return (
            "It is no part of the log: its bytes lie after the log end, or another file replaces it. A start of the"
            " broker removes it."
        )
    if (gone := _GONE.get(_purpose(place))) is not None:
        return gone
    if retention is None:
        return "The reasons are being read."
    if retention.error is not None:
        return f"The reasons cannot be read: {retention.error.message}."
    outlook = _outlook(retention.outlooks, place.base_offset)
    if outlook is None:
        return "The log has changed: it is no longer one of its segments."
    why = why_text(retention, outlook)
    if outlook.deletion is not None:
        return f"The next check of retention deletes it. {why[0].upper()}{why[1:]}."
    goes = goes_text(retention, outlook)
    return f"It stays, because {why}. It is deleted {goes}." if goes != "never" else f"It stays, because {why}."


def _outlook(outlooks: Sequence[SegmentOutlook], base_offset: int) -> SegmentOutlook | None:
    return next((one for one in outlooks if one.segment.base_offset == base_offset), None)


def _density(
    place: SegmentPlace,
    size: int,
    offsets: OffsetEntries,
    times: TimeEntries,
    survey: SegmentSurvey | None,
    interval_bytes: int,
) -> Section:
    end = place.valid_end
    tail = None if survey is None else survey.tail
    valid_end = min(size, end if end is not None else tail.position if tail is not None else size)
    wide = interval_bytes + (interval_bytes if survey is None else survey.largest_batch)
    files: Mapping[str, Row] = {
        name: {"used": entries.file.used, "size": entries.file.size}
        for name, entries in ((".index", offsets), (".timeindex", times))
        if not entries.file.is_missing
    }
    damages = () if survey is None else survey.damages
    items = density_items(offsets, times, damages, size=size, valid_end=valid_end, wide_bytes=wide, files=files)
    return Section(
        name="density",
        title="Index density",
        text=f"The width is the .log in bytes. A lookup reads from an entry on, at most one gap. Each gap is a little"
        f" larger than index.interval.bytes ({interval_bytes:,}); a gap above {wide:,} bytes is wide: an append had"
        " several batches, or entries are missing.",
        picture=Picture(
            items=items,
            draw=lambda: draw_index_density(
                items,
                size=size,
                interval_bytes=interval_bytes,
                url=lambda item: _item_url(place, item) if size else None,
            ),
        ),
    )


def _item_url(place: SegmentPlace, item: Row) -> str | None:
    start = item.get("from")
    return place.batch_url(start) if isinstance(start, int) and item["kind"] in ("gap", "damage", "tail") else None


def _links(place: SegmentPlace) -> Iterator[Link]:
    request, segments = place.request, place.view.state.segments
    key, name = request.log_dir.key, request.log_name
    before, after = segments.lower(place.base_offset), segments.higher(place.base_offset)
    if before is not None:
        yield Link("Previous segment", urls.segment_url(key, name, before.base_offset))
    if after is not None:
        yield Link("Next segment", urls.segment_url(key, name, after.base_offset))
    yield Link("Records", place.records_url(place.base_offset))
