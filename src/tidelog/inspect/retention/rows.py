"""A segment's retention as a row of plain values, for the command and for pages. Pure."""

from __future__ import annotations

from tidelog.inspect.retention.explain import SegmentOutlook
from tidelog.inspect.retention.sentences import why_text
from tidelog.inspect.retention.survey import PartitionRetention

SEGMENT_COLUMNS = (
    "base_offset",
    "last_offset",
    "bytes",
    "active",
    "time",
    "time_from",
    "goes",
    "rule",
    "goes_at",
    "after_bytes",
    "waits_for",
    "causes",
    "future_offset",
    "future_timestamp",
    "why",
)


def segment_row(part: PartitionRetention, outlook: SegmentOutlook) -> dict[str, object]:
    """Return a segment's values by the names in ``SEGMENT_COLUMNS``. Times are in ms."""
    segment, record = outlook.segment, part.future.get(outlook.segment.base_offset)
    values = (
        segment.base_offset,
        segment.end_offset - 1 if segment.end_offset > segment.base_offset else None,
        segment.size_bytes,
        outlook.is_active,
        segment.time_ms,
        part.times_from[segment.base_offset].value,
        outlook.trigger.value,
        None if outlook.deletion is None else outlook.deletion.rule.value,
        outlook.goes_at_ms,
        outlook.after_bytes,
        outlook.waits_for,
        [cause.value for cause in outlook.causes],
        None if record is None else record.offset,
        None if record is None else record.timestamp,
        why_text(part, outlook),
    )
    return dict(zip(SEGMENT_COLUMNS, values, strict=True))
