"""The bytes of a batch of the cluster metadata that must not be shown in hex, because they hold secrets.

Only values of records that were decoded, and certainly have no secrets, are shown. Everything that cannot be read is
hidden, and so are all compressed bytes. Other topics have no secrets. Pure, but for the bytes that it reads from the
batch's source. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.inspect.dump.metadata_secrets import holds_secrets
from tidelog.inspect.opened_batch import OpenedBatch
from tidelog.inspect.record_fields import RecordFields, Span
from tidelog.record.batch_header import V2_HEADER_BYTES

_MOST_VALUE_BYTES: Final = 1024 * 1024


def hidden_in_batch(opened: OpenedBatch) -> list[Span]:
    """Return the hidden bytes of the batch itself, if its records lie elsewhere or cannot be read at all."""
    if opened.source is None:
        return [Span(V2_HEADER_BYTES if opened.header.magic >= 0 else 0, opened.size)]
    return [] if opened.compressed is None else [opened.compressed]


def hidden_in_records(opened: OpenedBatch, start: int, end: int) -> list[Span]:
    """Return the hidden bytes of the source within ``[start, end)``."""
    spans = [span for record in records_in(opened, start, end) if (span := hidden_value(opened, record)) is not None]
    readable = records_end(opened)
    return [*spans, Span(readable, max(readable, opened.source_size))]


def hidden_value(opened: OpenedBatch, record: RecordFields) -> Span | None:
    """Return the bytes of a record that must be hidden: those of its value, or all after a problem."""
    assert opened.source is not None
    if record.problem is not None:
        return Span(record.start, max(record.end, opened.source_size))
    if record.value is None or opened.header.is_control:
        return None
    is_open = record.value.size <= _MOST_VALUE_BYTES and not holds_secrets(opened.source.read(*record.value))
    return None if is_open else record.value


def records_in(opened: OpenedBatch, start: int, end: int) -> Iterator[RecordFields]:
    """Yield the records with bytes in ``[start, end)`` of the source."""
    for number in opened.numbers_in(start, end):
        yield opened.record(number)


def records_end(opened: OpenedBatch) -> int:
    """Return the end of the last record whose place is known."""
    return opened.record(len(opened.starts) - 1).end if opened.starts else opened.records_at
