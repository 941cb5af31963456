"""The lines of ``kafka-dump-log`` for batches and records, built in bulk from columns.

``number_text`` builds numbers and constant text. Text that differs from record to record (header keys, data, the
meaning of a control record) is appended separately. The functions are pure. Thread rule: any thread. Source of the
format: the output of Kafka's ``DumpLogSegments``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from tidelog.inspect.dump.column_text import StringColumn, header_key_lists
from tidelog.inspect.dump.control_text import control_text
from tidelog.inspect.dump.log_batches import BatchRun
from tidelog.inspect.dump.number_text import Choice, LineText, Part, line_text
from tidelog.inspect.dump.options import KafkaFormatOptions
from tidelog.inspect.dump.payload_text import PayloadText
from tidelog.kernel import BatchTable, RecordColumns
from tidelog.model import CorruptRecordError
from tidelog.record.attributes import (
    CODEC_MASK,
    CODECS,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    codec_of,
    timestamp_type_of,
)
from tidelog.record.batch_header import MAX_SEQUENCE
from tidelog.record.internal_records.text import java_text
from tidelog.record.legacy import LegacyMessage

Complain = Callable[[str], None]

_TIMESTAMP_NAMES = ("CreateTime", "LogAppendTime", "NoTimestampType")
"""Names by the timestamp type's number. The last is for -1, none."""
_BOOLEANS = ("false", "true")
_CODEC_NAMES = [CODECS.get(codec) or f"unknown({codec})" for codec in range(CODEC_MASK + 1)]
_PAYLOAD_LEAD = " payload: "


def batch_lines(table: BatchTable) -> LineText:
    """Return a line for each row, with its line end."""
    magic = table.magic
    if not (magic >= 2).all():
        lines = [
            _legacy_batch_line(table, row) if magic[row] < 2 else batch_lines(table.take(slice(row, row + 1))).text
            for row in range(len(table))
        ]
        return LineText("".join(lines), np.concatenate(([0], np.cumsum([len(line) for line in lines]))))
    flags = table.attributes
    horizon = (flags & DELETE_HORIZON_FLAG) != 0
    base_sequence = table.base_sequence.astype(np.int64)
    parts: list[Part] = [
        "baseOffset: ",
        table.base_offset,
        " lastOffset: ",
        table.last_offset,
        " count: ",
        table.record_count.astype(np.int64),
        " baseSequence: ",
        base_sequence,
        " lastSequence: ",
        last_sequences(base_sequence, table.last_offset - table.base_offset),
        " producerId: ",
        table.producer_id,
        " producerEpoch: ",
        table.producer_epoch.astype(np.int64),
        " partitionLeaderEpoch: ",
        table.leader_epoch.astype(np.int64),
        " isTransactional: ",
        Choice((flags & TRANSACTIONAL_FLAG) // TRANSACTIONAL_FLAG, _BOOLEANS),
        " isControl: ",
        Choice((flags & CONTROL_FLAG) // CONTROL_FLAG, _BOOLEANS),
        " deleteHorizonMs: ",
        _horizons(horizon, table.base_timestamp),
        " position: ",
        table.position,
        Choice((flags & TIMESTAMP_TYPE_FLAG) // TIMESTAMP_TYPE_FLAG, [f" {name}: " for name in _TIMESTAMP_NAMES]),
        table.max_timestamp,
        " size: ",
        table.size.astype(np.int64),
        " magic: 2 compresscodec: ",
        Choice(flags & CODEC_MASK, _CODEC_NAMES),
        " crc: ",
        table.crc.astype(np.int64),
        Choice(table.crc_ok.astype(np.int8), [f" isvalid: {word}\n" for word in _BOOLEANS]),
    ]
    return line_text(len(table), parts)


def _horizons(has_horizon: npt.NDArray[np.bool_], base_timestamps: npt.NDArray[np.int64]) -> Choice:
    """Build the column of delete horizons. Few batches have one, and many share it, so only distinct values are
    formatted."""
    horizons, which = np.unique(base_timestamps[has_horizon], return_inverse=True)
    index = np.zeros(len(has_horizon), np.int64)
    index[has_horizon] = which + 1
    return Choice(index, ["OptionalLong.empty", *(f"OptionalLong[{horizon}]" for horizon in horizons.tolist())])


def _legacy_batch_line(table: BatchTable, number: int) -> str:
    row = table.row(number)
    kind = _TIMESTAMP_NAMES[timestamp_type_of(row.attributes, row.magic)]
    return (
        f"offset: {row.last_offset} position: {row.position} {kind}: {row.max_timestamp} size: {row.size} "
        f"magic: {row.magic} compresscodec: {_CODEC_NAMES[codec_of(row.attributes)]} crc: {row.crc} "
        f"isvalid: {_BOOLEANS[row.crc_ok]}\n"
    )


def last_sequences(
    base_sequence: npt.NDArray[np.int64], last_offset_delta: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the last sequence of each batch, -1 if it has none. Sequences wrap from 2^31 - 1 to 0."""
    last = base_sequence + last_offset_delta
    last[last > MAX_SEQUENCE] -= MAX_SEQUENCE + 1
    last[base_sequence == -1] = -1
    return last


class RecordLines:
    """The builder of records' text for one set of switches. ``complain`` receives records the decoder cannot show."""

    def __init__(self, options: KafkaFormatOptions, payload: PayloadText | None, complain: Complain) -> None:
        self._prints_metadata = not options.skip_record_metadata
        self._prints_payload = options.prints_payload
        self._payload = payload
        self._complain = complain
        self._key_lead = " key: " if self._prints_metadata else "| key: "
        has_lead = options.release.is_rewritten and not self._prints_metadata
        self._lone_payload_lead = "| payload: " if has_lead else _PAYLOAD_LEAD
        """The text before a payload whose record has no key."""
        self._legacy_end = "" if options.release.is_rewritten else "}"

    def below(self, batches: LineText, run: BatchRun, columns: RecordColumns) -> str:
        """Return the text of a run of v2 batches: each batch's line, followed by a line for each of its records."""
        assert columns.batch is not None
        counts = np.bincount(columns.batch - run.first, minlength=run.last - run.first)
        bounds = np.concatenate(([0], np.cumsum(counts)))
        tails = self._tails(run, columns)
        headers = header_key_lists(columns) if self._prints_metadata else None
        if headers is not None:
            tails.insert(0, headers)
        heads = self._heads(columns, has_headers=headers is not None, ends_line=not tails)
        if not tails:
            return "".join(chain.from_iterable(zip(batches.lines(), heads.between(bounds), strict=True)))
        # Each batch's line goes before its first record. A batch without records precedes the next batch that has some.
        lines = [*heads.lines(), ""]
        for line, start in zip(reversed(batches.lines()), reversed(bounds[:-1].tolist()), strict=True):
            lines[start] = line + lines[start]
        after_the_last = lines.pop()
        return "".join(chain.from_iterable(zip(lines, *tails, repeat("\n"), strict=False))) + after_the_last

    def of_messages(self, run: BatchRun, messages: list[LegacyMessage]) -> str:
        """Return the text of the v0 or v1 messages in one batch."""
        row = run.table.row(run.first)
        kind = _TIMESTAMP_NAMES[timestamp_type_of(row.attributes, row.magic)]
        # An inner message with a wrong CRC is an error, so every message unwrapped from a set is valid.
        is_valid = _BOOLEANS[row.crc_ok or codec_of(row.attributes) != 0]
        text = []
        for message in messages:
            key = None if message.key is None else bytes(message.key)
            value = None if message.value is None else bytes(message.value)
            if self._prints_metadata:
                text.append(
                    f"| offset: {message.offset} {kind}: {message.timestamp} keySize: {_size(key)} "
                    f"valueSize: {_size(value)} isValid: {is_valid} crc: {message.crc}{self._legacy_end}"
                )
            if self._prints_payload:
                text.append(self._tail(message.offset, key, value))
            text.append("\n")
        return "".join(text)

    def _heads(self, columns: RecordColumns, *, has_headers: bool, ends_line: bool) -> LineText:
        """Return the text before the first column of text that differs from record to record."""
        end = "\n" if ends_line else ""
        if not self._prints_metadata:
            return line_text(len(columns), [end])
        assert columns.sequence is not None
        parts: list[Part] = [
            "| offset: ",
            columns.offset,
            Choice(columns.timestamp_type, [f" {name}: " for name in _TIMESTAMP_NAMES]),
            columns.timestamp,
            " keySize: ",
            StringColumn.keys(columns).sizes,
            " valueSize: ",
            StringColumn.values(columns).sizes,
            " sequence: ",
            columns.sequence.astype(np.int64),
            f" headerKeys: {'' if has_headers else '[]'}{end}",
        ]
        return line_text(len(columns), parts)

    def _tails(self, run: BatchRun, columns: RecordColumns) -> list[Iterable[str]]:
        """Return the text after the header keys as columns: data, or the meaning of a control record. A column is
        endless if all its rows are the same."""
        is_control = _is_control(run, columns)
        if is_control is None and not self._prints_payload:
            return []
        if is_control is None and self._payload is None:
            keys, values = StringColumn.keys(columns), StringColumn.values(columns)
            return _labelled(repeat(self._key_lead), keys) + _labelled(self._payload_leads(keys), values)
        records = zip(
            columns.offset.tolist(),
            StringColumn.keys(columns).byte_strings(),
            StringColumn.values(columns).byte_strings(),
            repeat(False) if is_control is None else is_control.tolist(),
            strict=False,
        )
        return [[self._any_tail(*record) for record in records]]

    def _payload_leads(self, keys: StringColumn) -> Iterable[str]:
        if self._lone_payload_lead == _PAYLOAD_LEAD:
            return repeat(_PAYLOAD_LEAD)
        return [_PAYLOAD_LEAD if has_key else self._lone_payload_lead for has_key in keys.valid.tolist()]

    def _any_tail(self, offset: int, key: bytes | None, value: bytes | None, is_control: bool) -> str:
        if not is_control:
            return self._tail(offset, key, value) if self._prints_payload else ""
        if not self._prints_metadata:
            return ""
        try:
            return " " + control_text(key, value)
        except CorruptRecordError as error:
            self._complain(f"The control record at offset {offset} cannot be read: {error.message}")
            return ""

    def _tail(self, offset: int, key: bytes | None, value: bytes | None) -> str:
        if self._payload is None:
            key_text, value_text = _plain_text(key), _plain_text(value)
        else:
            try:
                key_text, value_text = self._payload(offset, key, value)
            except CorruptRecordError as error:
                self._complain(f"The record at offset {offset} {error.message}")
                return ""
        if value_text is None:
            return "" if key_text is None else self._key_lead + key_text
        if key_text is None:
            return self._lone_payload_lead + value_text
        return f"{self._key_lead}{key_text}{_PAYLOAD_LEAD}{value_text}"


def _labelled(labels: Iterable[str], column: StringColumn) -> list[Iterable[str]]:
    """Return a column of each value's label and one of its text. Both are empty for a null."""
    if column.valid.all():
        return [labels, column.texts()]
    if not column.valid.any():
        return []
    shown = [label if valid else "" for label, valid in zip(labels, column.valid.tolist(), strict=False)]
    return [shown, column.texts()]


def _is_control(run: BatchRun, columns: RecordColumns) -> npt.NDArray[np.bool_] | None:
    """Return one bool per record, or None if the run has no control batch."""
    batches: npt.NDArray[np.bool_] = (run.table.attributes[run.first : run.last] & CONTROL_FLAG) != 0
    if not batches.any():
        return None
    assert columns.batch is not None
    return batches[columns.batch - run.first].astype(np.bool_)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _plain_text(data: bytes | None) -> str | None:
    return None if data is None else java_text(data)
