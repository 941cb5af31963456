"""The texts about a segment's retention: its deletion's time and reason, or the reasons that keep it."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.inspect.durations import UNITS, duration_text
from tidelog.inspect.record_rows import iso_time
from tidelog.inspect.retention.explain import Cause, DeletionTrigger, SegmentOutlook
from tidelog.inspect.retention.survey import PartitionRetention
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.log.change.retention import Deletion, RetentionRule, RetentionSegment, RetentionState
from tidelog.storage.manager.survey.log_survey import HighWatermarkFrom, TimeFrom

_LAST_YEAR_MS = 253_402_300_800_000
"""The first moment after the last four-digit year."""

_HIGH_WATERMARKS = {
    HighWatermarkFrom.ONLY_REPLICA: "the only replica",
    HighWatermarkFrom.CHECKPOINT: "as checkpointed",
    HighWatermarkFrom.LOG_END: "no checkpoint: taken as the log end",
}


def limit_text(limit_ms: int) -> str:
    """Return ``retention.ms`` in words if they are exact. -1 stays."""
    if limit_ms < 0:
        return str(limit_ms)
    text, exact = duration_text(limit_ms), _exactly(limit_ms)
    return text if exact else f"{limit_ms:,} ms"


def _exactly(duration_ms: int) -> bool:
    units = [size for _, size in UNITS if duration_ms >= size][:2]
    return not units or duration_ms % units[-1] == 0


def settings_text(found: PartitionRetention) -> str:
    """Return text like ``cleanup.policy delete (default), retention.ms 7 days (topic), retention.bytes -1 (default)``.

    The brackets name the source of a value: see ``setting_sources``.
    """
    config, origins = found.settings.config, found.settings.origins
    values = {
        "cleanup.policy": ",".join(sorted(config.cleanup_policy)) or "none",
        "retention.ms": limit_text(config.retention_ms),
        "retention.bytes": f"{config.retention_bytes:,}",
    }
    return ", ".join(f"{key} {value} ({origins[key]})" for key, value in values.items())


def offsets_text(found: PartitionRetention) -> str:
    """Return text like ``log [0, 1,000), high watermark 1,000 (the only replica)``."""
    if found.state is None:
        return ""
    state = found.state
    high_watermark = f"{state.high_watermark:,} ({_HIGH_WATERMARKS[found.high_watermark_from]})"
    return f"log [{state.log_start_offset:,}, {found.log_end:,}), high watermark {high_watermark}"


def goes_text(found: PartitionRetention, outlook: SegmentOutlook) -> str:
    """Return the moment or event at which a segment is deleted."""
    assert found.state is not None
    blocked = f"high watermark at {outlook.segment.end_offset:,}"
    match outlook.trigger:
        case DeletionTrigger.NEXT_CHECK:
            return "next check"
        case DeletionTrigger.NEVER:
            return "never"
        case DeletionTrigger.HIGH_WATERMARK:
            return f"with the {blocked}"
    ways = []
    if outlook.goes_at_ms is not None:
        ways.append(_moment(outlook.goes_at_ms))
    if outlook.after_bytes is not None:
        roll = "a roll and " if outlook.is_active else ""
        ways.append(f"after {roll}{outlook.after_bytes:,} more bytes")
    needs = f", and the {blocked}" if Cause.HIGH_WATERMARK in outlook.causes else ""
    return " or ".join(ways) + needs


def why_text(found: PartitionRetention, outlook: SegmentOutlook) -> str:
    """Return the reason for a segment's deletion, or the reasons that keep it."""
    assert found.state is not None
    if outlook.deletion is not None:
        return _deletion_text(found, found.state, outlook, outlook.deletion)
    return "; ".join(_clauses(found, found.state, outlook))


def _deletion_text(
    found: PartitionRetention, state: RetentionState, outlook: SegmentOutlook, deletion: Deletion
) -> str:
    config, segment = state.config, deletion.segment
    match deletion.rule:
        case RetentionRule.LOG_START:
            return f"log start: it ends at {segment.end_offset:,}, the log starts at {state.log_start_offset:,}"
        case RetentionRule.SIZE:
            return f"size: {outlook.bytes_behind:,} bytes follow it, retention.bytes is {config.retention_bytes:,}"
        case RetentionRule.TIME:
            return f"time: {_age(found, segment, state.now_ms)}, retention.ms is {limit_text(config.retention_ms)}"


def _clauses(found: PartitionRetention, state: RetentionState, outlook: SegmentOutlook) -> Iterator[str]:
    config, segment, causes = state.config, outlook.segment, outlook.causes
    if Cause.EMPTY_ACTIVE in causes:
        yield "active and empty: a log always keeps one segment"
    if Cause.HIGH_WATERMARK in causes:
        yield f"it ends at {segment.end_offset:,}, above the high watermark {state.high_watermark:,}"
    if Cause.POLICY in causes:
        policy = "compact" if config.is_compacted else "empty"
        yield f"cleanup.policy is {policy}: only segments below the log start are deleted"
    if Cause.FUTURE_TIMESTAMP in causes:
        yield _future_text(found, state, segment)
    if Cause.YOUNG in causes:
        yield f"{_age(found, segment, state.now_ms)}, retention.ms is {limit_text(config.retention_ms)}"
    if Cause.WAITS in causes:
        yield f"segments are deleted oldest first, and segment {outlook.waits_for:,} stays until then"
    if found.partition.topic == CLUSTER_METADATA_TOPIC:
        yield "the metadata log begins at its oldest snapshot: only segments below that are deleted"
    elif Cause.UNLIMITED_TIME in causes:
        both = Cause.UNLIMITED_SIZE in causes
        yield "retention.ms and retention.bytes are -1" if both else "retention.ms is -1"
    if Cause.WITHIN_SIZE in causes:
        yield f"{outlook.bytes_behind:,} bytes follow it, retention.bytes is {config.retention_bytes:,}"
    if outlook.is_active and outlook.trigger in (DeletionTrigger.TIME, DeletionTrigger.TIME_OR_SIZE):
        yield "active: appends make it younger"


def _future_text(found: PartitionRetention, state: RetentionState, segment: RetentionSegment) -> str:
    ahead = duration_text(segment.time_ms - state.now_ms)
    moment = _moment(segment.time_ms)
    if not segment.has_timestamp:
        return f"{_file_clause(found, segment)} was last changed {moment}, {ahead} from now"
    record = found.future.get(segment.base_offset)
    which = "a record" if record is None else f"the record at offset {record.offset:,}"
    return f"future timestamp: {which} is dated {moment}, {ahead} from now"


def _age(found: PartitionRetention, segment: RetentionSegment, now_ms: int) -> str:
    age = duration_text(now_ms - segment.time_ms)
    if segment.has_timestamp:
        return f"its newest record is {age} old"
    return f"{_file_clause(found, segment)} was last changed {age} ago"


def _file_clause(found: PartitionRetention, segment: RetentionSegment) -> str:
    if found.times_from[segment.base_offset] is TimeFrom.FILE_WITHOUT_INDEX:
        return "its .timeindex is missing, so a broker uses the time of its file, which"
    return "no record has a timestamp, and its file"


def _moment(timestamp_ms: int) -> str:
    return iso_time(timestamp_ms) if timestamp_ms < _LAST_YEAR_MS else "after the year 9999"
