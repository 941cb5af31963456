"""The page of a batch: every field with its bytes and its meaning, its records, and its bytes in hex.

The position may be any position of a ``.log``, such as ``verify`` reports. If no batch begins there, the page names the
batch that contains it. A damaged batch is shown as far as it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.inspect.batch_fields import BatchHeader
from tidelog.inspect.batch_walk import LARGE_BYTES, Place, PlaceKind, computed_crc
from tidelog.inspect.opened_batch import MOST_RECORDS, OpenedBatch, open_batch
from tidelog.record.attributes import CODECS
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.web import urls
from tidelog.web.jobs import JobProgress, StillRunningError
from tidelog.web.page import Fact, Kind, Link, Page
from tidelog.web.pages.batch_tables import BatchTables
from tidelog.web.reports.segment_place import SegmentPlace, find_segment
from tidelog.web.reports.value_options import format_fields, value_shape
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError

_VALUE_BYTES: Final = 256


def batch_page(request: PageRequest) -> Page:
    """Return the page of the batch at a position. Raise NotFoundError for a position after the end of the file."""
    place = find_segment(request)
    position = request.number("position")
    with place.open() as reader:
        size = reader.size
        if position >= size:
            raise NotFoundError(
                f"the .log has {size:,} bytes, so nothing lies at position {position:,}", path=reader.path
            )
        where = place.locate(reader, position)
        opened = open_batch(reader, position)
        if where.kind is PlaceKind.INSIDE or not _is_batch(reader, where, position, opened):
            return _other_place(place, position, where)
        return _page(place, reader, position, where, opened)


def _is_batch(reader: SegmentReader, where: Place, position: int, opened: OpenedBatch) -> bool:
    """Return True for a boundary, for the beginning of damage, and for a valid batch after damage."""
    if where.kind is PlaceKind.BOUNDARY or where.position == position:
        return True
    header = opened.header
    if header.problems or not header.is_complete or header.size > LARGE_BYTES:
        return False
    return computed_crc(reader, position, header) == header.number("crc")


def _other_place(place: SegmentPlace, position: int, where: Place) -> Page:
    """Return the page of a position at which no batch begins."""
    facts = [Fact(name="position", value=position, kind=Kind.NUMBER)]
    if where.kind is PlaceKind.INSIDE:
        url = place.batch_url(where.position)
        note = (
            f"No batch begins at position {position:,}. It lies in the batch at position {where.position:,}, which has"
            f" {where.size:,} bytes: it is byte {position - where.position:,} of that batch."
        )
        facts.append(_position_fact("batch_position", "batch that contains it", where.position, place))
        facts.append(Fact(name="batch_size", title="its size", value=where.size, kind=Kind.BYTES))
        links = [Link("The batch that contains it", url)]
    else:
        url = place.batch_url(where.position)
        note = (
            f"No batch can be read at position {position:,}, and none up to there from position {where.position:,} on:"
            f" {where.reason}."
        )
        facts.append(_position_fact("damage_position", "unreadable from", where.position, place))
        links = [Link("The beginning of the damage", url)]
    return Page(
        title=f"Position {position}",
        trail=[*place.trail(), Link(place.title, place.url)],
        facts=facts,
        notes=[note],
        links=[*links, Link("Segment", place.url)],
    )


def _page(place: SegmentPlace, reader: SegmentReader, position: int, where: Place, opened: OpenedBatch) -> Page:
    request, header = place.request, opened.header
    notes = list(_notes(place, position, where, opened))
    following = _following(place, reader, position, header)
    crc, crc_note = _crc(place, reader, position, opened)
    shape = value_shape(request, most_bytes=_VALUE_BYTES)
    tables = BatchTables(opened, position, shape, request.query)
    sections = [
        tables.header(crc),
        tables.attributes(),
        tables.records(),
        tables.record(),
        tables.bytes(),
        tables.decompressed(),
    ]
    return Page(
        title=f"Batch at position {position}",
        trail=[*place.trail(), Link(place.title, place.url)],
        facts=list(_facts(place, position, where, opened, crc, following)),
        form=format_fields(shape),
        notes=[*notes, *crc_note],
        sections=[section for section in sections if section is not None],
        links=list(_links(place, where, header, following)),
        refresh_seconds=1 if crc_note else None,
    )


def _crc(
    place: SegmentPlace, reader: SegmentReader, position: int, opened: OpenedBatch
) -> tuple[int | None, list[str]]:
    """Return the checksum of the bytes, None if they are incomplete; and a note while it is computed."""
    header = opened.header
    if not header.is_complete or header.size < 0 or header.size > opened.size:
        return None, []
    if header.size <= LARGE_BYTES:
        return computed_crc(reader, position, header), []

    def work(progress: JobProgress) -> int:
        progress.expect(header.size)
        with place.open() as own:
            return computed_crc(own, position, header, progress.advance)

    request = place.request
    key = ("crc", request.log_dir.key, request.log_name, place.base_offset, place.state, position)
    try:
        title = f"computing the CRC of {header.size:,} bytes"
        signature = (reader.size, header.number("crc"))
        return request.job(key, work, title=title, signature=signature).value, []
    except StillRunningError as running:
        return None, [f"The CRC is being computed: {running.progress.share or 0:.0%} of the bytes are read."]


def _notes(place: SegmentPlace, position: int, where: Place, opened: OpenedBatch) -> Iterator[str]:
    if where.kind is PlaceKind.AFTER_DAMAGE and where.position != position:
        yield (
            f"The batch lies after bytes that cannot be read, from position {where.position:,} on: {where.reason}. Its"
            " CRC is right, so the log goes on here."
        )
    end = place.valid_end
    if end is not None and position >= end:
        yield f"The batch lies after the log end, at position {end:,} of this file: a start of the broker truncates it."
    elif place.segment is None:
        yield "The segment is no part of the log: a start of the broker deletes it, or it is being replaced."
    for problem in opened.header.problems:
        yield f"At position {position + problem.position:,}, byte {problem.position:,} of the batch: {problem.reason}."
    if opened.problem is not None and not _is_repeated(opened):
        at = opened.problem.position
        where_text = "the decompressed records" if opened.is_decompressed else "the batch"
        absolute = "" if opened.is_decompressed else f"At position {position + at:,}, "
        yield f"{absolute}{'B' if not absolute else 'b'}yte {at:,} of {where_text}: {opened.problem.reason}."
    if opened.header.size > LARGE_BYTES:
        yield f"The batch is larger than {LARGE_BYTES // 2**20} MiB, so only its first 10,000 records are listed."
    elif len(opened.starts) == MOST_RECORDS:
        yield f"Only the first {MOST_RECORDS:,} records are listed."


def _is_repeated(opened: OpenedBatch) -> bool:
    """Return True if the records end early because the file does, which a problem of the header says already."""
    return bool(opened.header.problems) and opened.problem is not None and opened.problem.position >= opened.size


def _following(place: SegmentPlace, reader: SegmentReader, position: int, header: BatchHeader) -> int | None:
    """Return the position of the next batch. After damage, it is the next valid one, if a survey has found it."""
    if header.size > 0 and not header.problems:
        return position + header.size if header.size < reader.size - position else None
    try:
        damages = place.survey().damages
    except StillRunningError:
        return None
    return next((damage.next_position for damage in damages if damage.position == position), None)


def _facts(
    place: SegmentPlace, position: int, where: Place, opened: OpenedBatch, crc: int | None, following: int | None
) -> Iterator[Fact]:
    header = opened.header
    size = header.size
    yield Fact(name="position", value=position, kind=Kind.NUMBER)
    yield Fact(name="size", value=size if size > 0 else None, kind=Kind.BYTES)
    yield Fact(name="format", value=f"v{header.magic}" if header.magic >= 0 else None)
    if header.is_complete:
        yield from _content_facts(place, opened, crc)
    yield _position_fact("previous_position", "previous batch", where.previous, place)
    yield _position_fact("next_position", "next batch", following, place)


def _content_facts(place: SegmentPlace, opened: OpenedBatch, crc: int | None) -> Iterator[Fact]:
    header, request = opened.header, place.request
    first = "offset" if header.is_legacy else "first offset"
    offsets_url = place.records_url(max(0, header.base_offset))
    yield Fact(name="base_offset", title=first, value=header.base_offset, kind=Kind.CODE, url=offsets_url)
    yield Fact(name="last_offset", title="last offset", value=header.last_offset, kind=Kind.CODE)
    count = len(opened.starts) if header.is_legacy else header.number("recordsCount")
    yield Fact(name="records", value=count, kind=Kind.NUMBER)
    yield Fact(name="codec", value=CODECS.get(header.codec, f"unknown ({header.codec})"))
    if opened.is_decompressed:
        yield Fact(name="decompressed_size", title="decompressed", value=opened.source_size, kind=Kind.BYTES)
    yield Fact(name="max_timestamp", title="largest timestamp", value=header.max_timestamp, kind=Kind.TIME)
    yield Fact(name="crc", title="CRC", value=_crc_text(header, crc))
    if not header.is_legacy:
        producer = header.number("producerId")
        url = None if producer < 0 else urls.log_part_url(request.log_dir.key, request.log_name, "producers")
        shown = None if producer < 0 else producer
        yield Fact(name="producer_id", title="producer id", value=shown, kind=Kind.CODE, url=url)
        epoch = header.number("partitionLeaderEpoch")
        yield Fact(name="leader_epoch", title="leader epoch", value=epoch, kind=Kind.CODE)


def _position_fact(name: str, title: str, position: int | None, place: SegmentPlace) -> Fact:
    url = None if position is None else place.batch_url(position)
    return Fact(name=name, title=title, value=position, kind=Kind.NUMBER, url=url)


def _crc_text(header: BatchHeader, crc: int | None) -> str:
    if crc is None:
        return "not computed"
    return "valid" if crc == header.number("crc") else "does not match the bytes"


def _links(place: SegmentPlace, where: Place, header: BatchHeader, following: int | None) -> Iterator[Link]:
    if where.previous is not None:
        yield Link("Previous batch", place.batch_url(where.previous))
    if following is not None:
        yield Link("Next batch", place.batch_url(following))
    if header.is_complete and header.base_offset >= 0:
        yield Link("Records", place.records_url(header.base_offset))
