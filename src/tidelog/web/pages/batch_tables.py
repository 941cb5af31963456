"""The tables of a batch's page: fields with their bytes, records, and rows of hex."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.inspect.batch_fields import ByteSource, Field, attribute_bits
from tidelog.inspect.batch_masks import hidden_in_batch, hidden_in_records, hidden_value, records_in
from tidelog.inspect.dump.options import PayloadDecoder
from tidelog.inspect.hex_view import ROW_BYTES, NamedSpan, hex_rows
from tidelog.inspect.opened_batch import OpenedBatch
from tidelog.inspect.record_fields import RecordFields, Span
from tidelog.inspect.record_scan import Piece
from tidelog.inspect.shown_values import MOST_JSON_BYTES, ValueShape, shown_control, shown_record
from tidelog.record.batch_header import MAX_SEQUENCE
from tidelog.record.internal_records.text import java_text
from tidelog.web.page import Column, Kind, Row, Section, Table
from tidelog.web.query import Query
from tidelog.web.reports.value_rows import headers_json, value_columns

HEADER, ATTRIBUTES, RECORDS, RECORD, BYTES, PLAIN = "header", "attributes", "records", "record", "bytes", "decompressed"
"""The names of the sections."""
_FIELD_BYTES: Final = 24
"""The bytes of a field that its row shows."""
_HEX_ROWS: Final = 32
_RECORDS: Final = 20
_FIELD_COLUMNS: Final = (
    Column(name="field", kind=Kind.HEX),
    Column(name="byte", kind=Kind.NUMBER, help="The field's first byte, counted from 0"),
    Column(name="position", kind=Kind.NUMBER, help="Position in the file"),
    Column(name="size", kind=Kind.NUMBER, help="Bytes of the field"),
    Column(name="type", kind=Kind.CODE),
    Column(name="hex", title="bytes", kind=Kind.HEX),
    Column(name="value", kind=Kind.HEX),
    Column(name="meaning"),
)


@dataclass(frozen=True, slots=True)
class BatchTables:
    """``origin`` is the batch's position in the file. The batch's file is open while the tables are made."""

    opened: OpenedBatch
    origin: int
    shape: ValueShape
    query: Query

    @property
    def _hides(self) -> bool:
        return self.shape.decoder is PayloadDecoder.CLUSTER_METADATA

    def header(self, computed_crc: int | None) -> Section:
        """Return the fields of the header. ``computed_crc`` None means that it is not computed yet."""
        opened = self.opened
        rows = [self._field_row(field, opened.batch, self.origin) for field in opened.header.fields]
        for row in rows:
            if row["field"] == "crc" and computed_crc is not None:
                is_same = computed_crc == row["value"]
                row["meaning"] = f"{row['meaning']}; " + (
                    "the bytes have the same" if is_same else f"the bytes have another one: {computed_crc}"
                )
        return Section(
            name=HEADER,
            title="Header",
            text="Each field with its bytes: its first byte in the batch, and its position in the file.",
            table=Table(columns=_FIELD_COLUMNS, rows=rows, empty="No field of a header can be read here."),
        )

    def attributes(self) -> Section:
        header = self.opened.header
        bits = attribute_bits(header.attributes, header.magic) if "attributes" in header.values else ()
        return Section(
            name=ATTRIBUTES,
            title="Attributes",
            table=Table(
                columns=[
                    Column(name="bits", kind=Kind.CODE),
                    Column(name="name"),
                    Column(name="value", kind=Kind.CODE),
                    Column(name="meaning"),
                ],
                rows=[{"bits": one.bits, "name": one.name, "value": one.value, "meaning": one.meaning} for one in bits],
                empty="No attributes can be read.",
            ),
        )

    def records(self) -> Section:
        """Return the records, with links to their fields and their bytes."""
        opened = self.opened
        shown, paging = self.query.sliced(RECORDS, len(opened.starts), size=_RECORDS, at=self._chosen() or 0)
        rows = [self._record_row(opened.record(number)) for number in shown]
        columns = [
            Column(name="number", kind=Kind.NUMBER, link=self._fields_url),
            Column(name="offset", kind=Kind.CODE),
            Column(name="byte", kind=Kind.NUMBER, link=self._bytes_url, help="The record's first byte"),
            Column(name="size", kind=Kind.NUMBER, help="Bytes of the record with its length"),
            Column(name="timestamp", kind=Kind.TIME),
            Column(name="sequence", kind=Kind.CODE),
            Column(name="key", kind=Kind.DATA),
            Column(name="value", kind=Kind.DATA),
            *(Column(name=name, kind=Kind.DATA) for name in ("headers", "problem") if any(row[name] for row in rows)),
        ]
        where = "in the decompressed records" if opened.is_decompressed else "in the batch"
        return Section(
            name=RECORDS,
            title="Records",
            text=f"A record's number leads to its fields, and its first byte {where} to its bytes.",
            table=Table(
                columns=columns,
                rows=rows,
                paging=paging,
                empty="No record can be read." if opened.problem or opened.header.problems else "There are no records.",
            ),
        )

    def record(self) -> Section | None:
        """Return the fields of the chosen record."""
        opened = self.opened
        number = self._chosen()
        if number is None or opened.source is None:
            return None
        record = opened.record(number)
        hidden = hidden_value(opened, record) if self._hides else None
        rows = [self._field_row(field, opened.source, self._record_origin, hidden) for field in record.fields]
        return Section(
            name=RECORD,
            title=f"Fields of record {number}",
            text="The first byte of each field counts in "
            + ("the decompressed records." if opened.is_decompressed else "the batch."),
            table=Table(columns=_FIELD_COLUMNS, rows=rows, empty="The record has no field that can be read."),
        )

    def _chosen(self) -> int | None:
        """Return the number of the record that the parameters ``record`` or ``offset`` name, by default the first."""
        starts = self.opened.starts
        number, offset = self.query.integer(RECORD, -1, minimum=-1), self.query.integer("offset", -1, minimum=-1)
        if not starts:
            return None
        if number < 0 <= offset:
            number = bisect_left(range(len(starts)), offset, key=lambda one: self.opened.record(one).offset or -1)
        return min(max(0, number), len(starts) - 1)

    def bytes(self) -> Section:
        """Return the bytes of the batch in the file."""
        opened = self.opened
        hidden = hidden_in_batch(opened) if self._hides else []
        spans = [NamedSpan(field.start, field.end, field.name) for field in opened.header.fields]
        if opened.compressed is not None:
            spans.append(NamedSpan(*opened.compressed, "compressed records"))
        return self._hex(
            BYTES, "Bytes", opened.batch, opened.size, spans, hidden, is_source=opened.source is opened.batch
        )

    def decompressed(self) -> Section | None:
        """Return the bytes of the decompressed records."""
        opened = self.opened
        if not opened.is_decompressed or opened.source is None:
            return None
        return self._hex(PLAIN, "Decompressed records", opened.source, opened.source_size, [], [], is_source=True)

    def _hex(
        self,
        name: str,
        title: str,
        source: ByteSource,
        size: int,
        spans: Sequence[NamedSpan],
        hidden: Sequence[Span],
        *,
        is_source: bool,
    ) -> Section:
        shown, paging = self.query.sliced(name, -(-size // ROW_BYTES), size=_HEX_ROWS)
        start, end = shown.start * ROW_BYTES, min(size, shown.stop * ROW_BYTES)
        named = list(spans)
        if is_source:
            named += self._record_spans(start, end)
            hidden = [*hidden, *(hidden_in_records(self.opened, start, end) if self._hides else ())]
        origin = 0 if name == PLAIN else self.origin
        rows = hex_rows(source.read(start, end), start, named, hidden)
        return Section(
            name=name,
            title=title,
            text="A field such as 2.key belongs to record 2."
            + (" Values that may hold secrets are hidden." if self._hides else ""),
            table=Table(
                columns=[
                    Column(name="position", kind=Kind.NUMBER),
                    Column(name="hex", kind=Kind.HEX),
                    Column(name="text", kind=Kind.HEX),
                    Column(name="fields"),
                ],
                rows=[
                    {
                        "position": origin + row.position,
                        "hex": row.hex,
                        "text": row.text,
                        "fields": list(row.fields),
                    }
                    for row in rows
                ],
                paging=paging,
                empty="There are no bytes.",
            ),
        )

    def _record_spans(self, start: int, end: int) -> Iterator[NamedSpan]:
        for record in records_in(self.opened, start, end):
            for field in record.fields:
                if field.start < end and field.end > start:
                    yield NamedSpan(field.start, field.end, f"{record.number}.{field.name}")

    @property
    def _record_origin(self) -> int | None:
        """The position in the file from which the bytes of records count; decompressed ones have none."""
        return None if self.opened.is_decompressed else self.origin

    def _fields_url(self, row: Row) -> str:
        return self.query.with_changes({RECORD: str(row["number"]), "offset": None}) + f"#{RECORD}"

    def _bytes_url(self, row: Row) -> str:
        name = PLAIN if self.opened.is_decompressed else BYTES
        start = self.opened.starts[int(str(row["number"]))]
        size = self.query.integer(f"{name}.size", _HEX_ROWS, minimum=1, maximum=1000)
        return self.query.with_changes({f"{name}.page": str(start // (size * ROW_BYTES) + 1)}) + f"#{name}"

    def _field_row(
        self, field: Field, source: ByteSource, origin: int | None, hidden: Span | None = None
    ) -> dict[str, object]:
        is_hidden = hidden is not None and field.start < hidden.end and field.end > hidden.start
        data = source.read(field.start, min(field.end, field.start + _FIELD_BYTES))
        size = field.end - field.start
        return {
            "field": field.name,
            "byte": field.start,
            "position": None if origin is None else origin + field.start,
            "size": size,
            "type": field.type,
            "hex": "hidden" if is_hidden else data.hex(" ") + (" …" if size > len(data) else ""),
            "value": None if is_hidden else _field_value(field, data, size),
            "meaning": field.meaning,
        }

    def _record_row(self, record: RecordFields) -> Row:
        opened = self.opened
        assert opened.source is not None
        first, sequence = opened.header.number("baseSequence"), None
        if first >= 0 and record.offset is not None:
            sequence = (first + record.offset - opened.header.base_offset) & MAX_SEQUENCE
        key, value = self._piece(record.key), self._piece(record.value)
        if record.problem is not None and self._hides:
            key = value = None
        if opened.header.is_control:
            shown = shown_control(key, value, self.shape.most_bytes)
        else:
            shown = shown_record(key, value, self.shape)
        headers = [
            (java_text(opened.source.read(*header.key)[: _FIELD_BYTES * 10]), self._piece(header.value))
            for header in record.headers
        ]
        deltas = {field.name: field.value for field in record.fields}
        return {
            "number": record.number,
            "offset": record.offset,
            "byte": record.start,
            "position": None if self._record_origin is None else self._record_origin + record.start,
            "size": record.end - record.start,
            "attributes": deltas.get("attributes"),
            "timestamp_delta": deltas.get("timestampDelta"),
            "offset_delta": deltas.get("offsetDelta"),
            "timestamp": record.timestamp,
            "sequence": sequence,
            **value_columns(shown),
            "headers": headers_json(headers, record.header_count, self.shape.most_bytes),
            "problem": None if record.problem is None else record.problem.reason,
        }

    def _piece(self, span: Span | None) -> Piece | None:
        if span is None or self.opened.source is None:
            return None
        kept = span.size if span.size <= MOST_JSON_BYTES else self.shape.most_bytes
        return Piece(self.opened.source.read(span.start, span.start + kept), span.size)


def _field_value(field: Field, data: bytes, size: int) -> int | str | None:
    """Return a number, or the first characters of text in quotes."""
    if field.value is not None or field.type != "bytes":
        return field.value
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return json.dumps(text, ensure_ascii=False) + (" …" if size > len(data) else "")
