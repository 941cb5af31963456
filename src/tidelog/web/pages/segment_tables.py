"""The tables of a segment's page: its files, its batches by position, and the entries of its indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.inspect.batch_walk import PlaceKind, position_before, position_of_offset, windows
from tidelog.inspect.dump.options import PayloadDecoder, choose_payload_decoder
from tidelog.inspect.hex_view import NamedSpan, hex_rows
from tidelog.inspect.index_entries import IndexFile, OffsetEntries, TimeEntries, TransactionEntries
from tidelog.inspect.segment_survey import Damage, SegmentSurvey
from tidelog.kernel import BatchRow, Stop
from tidelog.model import FileMissingError
from tidelog.record.attributes import CODECS, CONTROL_FLAG, DELETE_HORIZON_FLAG, TRANSACTIONAL_FLAG, codec_of
from tidelog.record.batch_header import CURRENT_MAGIC
from tidelog.storage.log.view.view_state import stop_reason
from tidelog.storage.segment.file_names import FileKind, FileState, segment_file
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.web import urls
from tidelog.web.page import Column, Kind, Link, Row, Section, Table
from tidelog.web.reports.segment_place import WALK_BYTES, SegmentPlace

BATCHES, INDEX, TIME_INDEX, TXN_INDEX, FILES, TAIL = "batches", "index", "timeindex", "txnindex", "files", "tail"
_BATCHES: Final = 100
_MOST_BATCHES: Final = 500
_PAGE_BYTES: Final = 4 * 1024 * 1024
"""The bytes of the ``.log`` that one page of batches reads."""
_TAIL_BYTES: Final = 128
_LOOKUP_BYTES: Final = 256 * 1024
"""The bytes that one lookup of an index entry's batch reads."""
_FLAGS: Final = (
    (TRANSACTIONAL_FLAG, "transactional"),
    (CONTROL_FLAG, "control"),
    (DELETE_HORIZON_FLAG, "delete horizon"),
)


@dataclass(frozen=True, slots=True)
class SegmentTables:
    """The ``.log`` is open while the tables are made. ``survey`` is None while it is being made."""

    place: SegmentPlace
    reader: SegmentReader
    survey: SegmentSurvey | None

    def files(self, entries: Mapping[FileKind, int]) -> Section:
        """Return all files with the segment's base offset. ``entries`` has the numbers of index entries."""
        place = self.place
        rows: list[Row] = []
        for kind in FileKind:
            for state in FileState:
                path = segment_file(place.view.directory, place.base_offset, kind, state)
                try:
                    stat = place.view.fs.stat(path)
                except FileMissingError:
                    continue
                rows.append(
                    {
                        "file": path.name,
                        "bytes": stat.size,
                        "modified": stat.mtime_ms,
                        "entries": entries.get(kind) if state is place.state else None,
                        "state": _STATES[state],
                    }
                )
        return Section(
            name=FILES,
            title="Files",
            table=Table(
                columns=[
                    Column(name="file", kind=Kind.CODE),
                    Column(name="bytes", title="size", kind=Kind.BYTES),
                    Column(name="entries", kind=Kind.NUMBER),
                    Column(name="modified", kind=Kind.TIME),
                    Column(name="state"),
                ],
                rows=rows,
            ),
        )

    def batches(self) -> tuple[Section, list[str]]:
        """Return the batches from the parameter ``position`` on, and notes about them."""
        query = self.place.request.query
        asked = query.integer("position", 0)
        count = query.integer(BATCHES, _BATCHES, minimum=1, maximum=_MOST_BATCHES)
        position, notes = self._boundary(asked)
        rows, following, damage_notes = self._batch_rows(position, count)
        section = Section(
            name=BATCHES,
            title="Batches",
            text="By their position in the .log, which leads to every byte of a batch. The parameter position begins"
            " the list elsewhere.",
            links=list(self._batch_links(position, following, count)),
            table=Table(
                columns=self._batch_columns(rows),
                rows=rows,
                empty="No batch follows." if position else "The segment has no batch.",
            ),
        )
        return section, [*notes, *damage_notes]

    def _boundary(self, asked: int) -> tuple[int, list[str]]:
        """Return the batch boundary at which the list begins, and a note if it is another position."""
        if asked == 0:
            return 0, []
        if asked >= self.reader.size:
            return 0, [f"The .log has {self.reader.size:,} bytes, so the list begins at its beginning."]
        where = self.place.locate(self.reader, asked)
        if where.kind is PlaceKind.BOUNDARY or where.position == asked:
            return asked, []
        return where.position, [f"No batch begins at position {asked:,}, so the list begins at {where.position:,}."]

    def _batch_rows(self, position: int, count: int) -> tuple[list[Row], int | None, list[str]]:
        """Return rows, the position of the next batch after them, and notes. The bytes that are read are bounded."""
        rows: list[Row] = []
        size, left, at = self.reader.size, _PAGE_BYTES, position
        while at < size and len(rows) < count and left > 0:
            stop = Stop.END
            for window in windows(self.reader, at, size):
                left -= window.bytes_read
                found = list(window.rows())[: count - len(rows)]
                rows += [self._batch_row(row, is_checked=window.large is None) for row in found]
                is_all = len(found) == max(len(window.table), int(window.large is not None))
                at = window.next_position if is_all else found[-1].position + found[-1].size
                stop = window.stop if is_all else Stop.END
                if len(rows) == count or left <= 0:
                    break
            if stop is Stop.END:
                continue
            if self.survey is None:
                return rows, None, [f"Position {at:,} cannot be read; the next batch is being searched."]
            damage = self._damage_at(at)
            rows.append(_damage_row(at, size, damage, stop_reason(stop)))
            at = size if damage is None or damage.next_position is None else damage.next_position
        return rows, at if at < size else None, []

    def _damage_at(self, position: int) -> Damage | None:
        damages = () if self.survey is None else self.survey.damages
        return next((damage for damage in damages if damage.position == position), None)

    def _batch_row(self, row: BatchRow, *, is_checked: bool) -> Row:
        end = self.place.valid_end
        is_v2 = row.magic >= CURRENT_MAGIC
        flags = [name for flag, name in _FLAGS if is_v2 and row.attributes & flag]
        problem = None
        if not row.crc_ok:
            problem = "the CRC does not match"
        elif not row.header_ok:
            problem = "the header contradicts itself"
        elif end is not None and row.position >= end:
            problem = "after the log end"
        return {
            "position": row.position,
            "size": row.size,
            "base_offset": row.base_offset,
            "last_offset": row.last_offset,
            "records": None if row.record_count < 0 else row.record_count,
            "max_timestamp": row.max_timestamp,
            "format": f"v{row.magic}",
            "codec": CODECS.get(codec_of(row.attributes), "unknown"),
            "flags": flags,
            "producer_id": None if row.producer_id < 0 else row.producer_id,
            "leader_epoch": None if row.leader_epoch < 0 else row.leader_epoch,
            "crc": "not checked" if not is_checked else "valid" if row.crc_ok else "bad",
            "problem": problem,
        }

    def _batch_columns(self, rows: Sequence[Row]) -> list[Column]:
        place = self.place
        has_problem = any(row["problem"] for row in rows)
        return [
            Column(name="position", kind=Kind.NUMBER, link=lambda row: place.batch_url(_int(row, "position"))),
            Column(name="size", kind=Kind.BYTES),
            self._offset_column("base_offset", "first offset"),
            Column(name="last_offset", title="last offset", kind=Kind.CODE),
            Column(name="records", kind=Kind.NUMBER, help="Unknown for a compressed set of v0 or v1"),
            Column(name="max_timestamp", title="largest timestamp", kind=Kind.TIME),
            *([Column(name="format")] if any(row["format"] not in ("v2", None) for row in rows) else []),
            Column(name="codec"),
            Column(name="flags"),
            Column(name="producer_id", title="producer", kind=Kind.CODE),
            Column(name="leader_epoch", title="epoch", kind=Kind.CODE),
            Column(name="crc", title="CRC"),
            *([Column(name="problem")] if has_problem else []),
        ]

    def _offset_column(self, name: str, title: str = "") -> Column:
        """Return a column of offsets, each with a link to its record."""

        def link(row: Row) -> str | None:
            offset = row[name]
            return self.place.records_url(offset) if isinstance(offset, int) and offset >= 0 else None

        return Column(name=name, title=title, kind=Kind.CODE, link=link)

    def _batch_links(self, position: int, following: int | None, count: int) -> Iterator[Link]:
        marks = () if self.survey is None else self.survey.marks
        if position > 0:
            yield Link("First", self._batches_url(0))
            before = position_before(self.reader, position, count, most_bytes=WALK_BYTES, marks=marks)
            if before is not None:
                yield Link("Previous", self._batches_url(before))
        if following is not None:
            yield Link("Next", self._batches_url(following))
            end = self.place.valid_end
            end = self.reader.size if end is None else end
            last = position_before(self.reader, end, count, most_bytes=WALK_BYTES, marks=marks)
            if last is not None and last > position:
                yield Link("Last", self._batches_url(last))

    def _batches_url(self, position: int) -> str:
        return self.place.request.query.with_changes({"position": str(position)}) + f"#{BATCHES}"

    def index(self, entries: OffsetEntries, interval_bytes: int) -> Section:
        """Return the entries of the ``.index``."""
        shown, paging = self.place.request.query.sliced(INDEX, len(entries))
        gaps, size = entries.gaps(), self.reader.size
        rows = [
            {
                "number": number,
                "offset": int(entries.offsets[number]),
                "position": int(entries.positions[number]),
                "gap": int(gaps[number]),
                "fault": entries.fault(number, size),
            }
            for number in shown
        ]
        place = self.place
        return Section(
            name=INDEX,
            title="Entries of the .index",
            text="The last offset of a batch, and the batch's position. A lookup of an offset begins at the entry"
            f" before it. An entry is added after more than {interval_bytes:,} bytes (index.interval.bytes)."
            + _file_text(entries.file),
            is_folded=True,
            table=Table(
                columns=[
                    Column(name="number", kind=Kind.NUMBER),
                    self._offset_column("offset"),
                    Column(name="position", kind=Kind.NUMBER, link=lambda row: place.batch_url(_int(row, "position"))),
                    Column(name="gap", kind=Kind.BYTES, help="Bytes since the entry before it"),
                    *([Column(name="fault")] if any(row["fault"] for row in rows) else []),
                ],
                rows=rows,
                paging=paging,
                empty="The file is missing." if entries.file.is_missing else "The index has no entries.",
            ),
        )

    def time_index(self, entries: TimeEntries) -> Section:
        """Return the entries of the ``.timeindex``, with the positions of their batches."""
        shown, paging = self.place.request.query.sliced(TIME_INDEX, len(entries))
        rows = [
            {
                "number": number,
                "timestamp": int(entries.timestamps[number]),
                "offset": int(entries.offsets[number]),
                "batch_position": self._position_of(int(entries.offsets[number])),
                "fault": entries.fault(number),
            }
            for number in shown
        ]
        return Section(
            name=TIME_INDEX,
            title="Entries of the .timeindex",
            text="The largest timestamp so far, and the offset of its record. A lookup of a time begins at the entry"
            " before it." + _file_text(entries.file),
            is_folded=True,
            table=Table(
                columns=[
                    Column(name="number", kind=Kind.NUMBER),
                    Column(name="timestamp", kind=Kind.TIME),
                    self._offset_column("offset"),
                    self._batch_column(),
                    *([Column(name="fault")] if any(row["fault"] for row in rows) else []),
                ],
                rows=rows,
                paging=paging,
                empty="The file is missing." if entries.file.is_missing else "The index has no entries.",
            ),
        )

    def transaction_index(self, found: TransactionEntries) -> Section:
        """Return the aborted transactions whose markers lie in the segment."""
        shown, paging = self.place.request.query.sliced(TXN_INDEX, len(found.entries))
        rows = [
            {
                "number": number,
                **found.entries[number]._asdict(),
                "batch_position": self._position_of(found.entries[number].last_offset),
            }
            for number in shown
        ]
        request = self.place.request
        producers = urls.log_part_url(request.log_dir.key, request.log_name, "producers")
        return Section(
            name=TXN_INDEX,
            title="Entries of the .txnindex",
            text="Transactions that were aborted by a marker in this segment. Readers of committed records skip them."
            + (f" The rest cannot be read: {found.problem}." if found.problem else ""),
            is_folded=True,
            table=Table(
                columns=[
                    Column(name="number", kind=Kind.NUMBER),
                    Column(name="producer_id", title="producer", kind=Kind.CODE, link=lambda _row: producers),
                    self._offset_column("first_offset", "first offset"),
                    self._offset_column("last_offset", "marker's offset"),
                    Column(name="last_stable_offset", title="last stable offset", kind=Kind.CODE),
                    self._batch_column(),
                ],
                rows=rows,
                paging=paging,
                empty="No transaction was aborted here.",
            ),
        )

    def tail(self) -> Section | None:
        """Return the bytes after the last valid batch, with the reason, or None if there are none."""
        place = self.place
        state, size = place.view.state, self.reader.size
        invalid, end = state.invalid_tail, place.valid_end
        damage = None if self.survey is None else self.survey.tail
        if invalid is not None and place.segment is not None and invalid.path == self.reader.path:
            end, reason = invalid.position, invalid.reason
        elif damage is not None:
            end, reason = damage.position, damage.reason
        else:
            reason = "a running process may be writing them"
        if end is None or end >= size:
            return None
        data = bytes(self.reader.read(end, min(_TAIL_BYTES, size - end)))
        hides = choose_payload_decoder(place.request.partition.directory_name) is PayloadDecoder.CLUSTER_METADATA
        hidden = [(end, end + len(data))] if hides else []
        rows = hex_rows(data, end, [NamedSpan(end, size, "no valid batch")], hidden)
        zeros = " The first of them are zeros, as preallocation or a lost write leaves them." if not any(data) else ""
        return Section(
            name=TAIL,
            title="Bytes after the last valid batch",
            text=f"{size - end:,} bytes from position {end:,} on: {reason}.{zeros} Here are the first {len(data)}.",
            links=[Link("Read them as a batch", place.batch_url(end))],
            table=Table(
                columns=[
                    Column(name="position", kind=Kind.NUMBER),
                    Column(name="hex", kind=Kind.HEX),
                    Column(name="text", kind=Kind.HEX),
                ],
                rows=[{"position": row.position, "hex": row.hex, "text": row.text} for row in rows],
            ),
        )

    def _position_of(self, offset: int) -> int | None:
        return position_of_offset(self.reader, offset, most_bytes=_LOOKUP_BYTES)

    def _batch_column(self) -> Column:
        place = self.place

        def link(row: Row) -> str | None:
            position = row["batch_position"]
            return place.batch_url(position) if isinstance(position, int) else None

        return Column(name="batch_position", title="batch", kind=Kind.NUMBER, link=link, help="Position of its batch")


_STATES: Final = {
    FileState.LIVE: "in use",
    FileState.CLEANED: "unfinished result of cleaning or splitting",
    FileState.SWAP: "replaces the segments that it covers at the next start",
    FileState.DELETED: "waits for its removal",
}


def _damage_row(position: int, size: int, damage: Damage | None, reason: str) -> Row:
    end = size if damage is None else damage.position + damage.size
    row = dict.fromkeys(
        (
            "base_offset",
            "last_offset",
            "records",
            "max_timestamp",
            "format",
            "codec",
            "producer_id",
            "leader_epoch",
            "crc",
        )
    )
    return {**row, "position": position, "size": end - position, "flags": [], "problem": f"no batch: {reason}"}


def _file_text(file: IndexFile) -> str:
    text = ""
    if file.size > file.used + file.odd_bytes and not file.is_shortened:
        text += f" {file.size - file.used:,} bytes at the end of the file are zeros: preallocated, without entries."
    if file.odd_bytes:
        text += f" The file's size is no multiple of an entry: {file.odd_bytes} bytes are left."
    if file.is_shortened:
        text += " Only the first 16 MiB of the file were read."
    return text


def _int(row: Row, name: str) -> int:
    value = row[name]
    return value if isinstance(value, int) else 0
