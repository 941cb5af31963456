"""The state of each segment in one word: the rule that keeps or deletes it. Pure.

A segment may have several reasons to stay (``explain``). The first row that applies gives its state. Sums over many
logs (``summary``) count an active segment by the rule below its row, unless it is empty.

=========================  ============================================================================================
state                      the segment
=========================  ============================================================================================
DELETED_BY_...             is deleted by the next check
ACTIVE                     is active
HIGH_WATERMARK             would be deleted, if its records were below the high watermark
SNAPSHOT                   belongs to the metadata log, whose oldest snapshot moves the log start
COMPACTION                 stays because ``cleanup.policy`` is compact
NO_POLICY                  stays because ``cleanup.policy`` is empty
FUTURE                     has a timestamp in the future
WAITS                      waits for an earlier segment: it is old enough itself, or the other has a future timestamp
TIME, SIZE, TIME_AND_SIZE  is within the limits of these rules; with both limits either may delete it first
UNLIMITED                  has no limit
=========================  ============================================================================================

An open transaction keeps no segment: retention does not look at the last stable offset. Source: Kafka's
``UnifiedLog.deleteOldSegments``.
"""

from __future__ import annotations

import enum

from tidelog.inspect.retention.explain import Cause, DeletionTrigger, SegmentOutlook
from tidelog.inspect.retention.survey import PartitionRetention
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.storage.log.change.retention import RetentionRule


class SegmentState(enum.StrEnum):
    """The states of the module's table."""

    ACTIVE = "active"
    DELETED_BY_LOG_START = "deleted_by_log_start"
    DELETED_BY_SIZE = "deleted_by_size"
    DELETED_BY_TIME = "deleted_by_time"
    HIGH_WATERMARK = "high_watermark"
    SNAPSHOT = "snapshot"
    COMPACTION = "compaction"
    NO_POLICY = "no_policy"
    FUTURE = "future"
    WAITS = "waits"
    TIME = "time"
    SIZE = "size"
    TIME_AND_SIZE = "time_and_size"
    UNLIMITED = "unlimited"


_DELETIONS = {
    RetentionRule.LOG_START: SegmentState.DELETED_BY_LOG_START,
    RetentionRule.SIZE: SegmentState.DELETED_BY_SIZE,
    RetentionRule.TIME: SegmentState.DELETED_BY_TIME,
}


def segment_states(found: PartitionRetention) -> tuple[SegmentState, ...]:
    """Return the state of each segment, by ascending base offset."""
    return tuple(
        SegmentState.ACTIVE if outlook.is_active and outlook.deletion is None else rule
        for outlook, rule in zip(found.outlooks, segment_rules(found), strict=True)
    )


def segment_rules(found: PartitionRetention) -> tuple[SegmentState, ...]:
    """Return the states without the row ``ACTIVE``, which only an empty active segment has."""
    ahead = future_segments(found)
    return tuple(_rule(found, outlook, ahead) for outlook in found.outlooks)


def future_segments(found: PartitionRetention) -> frozenset[int]:
    """Return the base offsets of the segments whose time lies in the future."""
    return frozenset(one.segment.base_offset for one in found.outlooks if Cause.FUTURE_TIMESTAMP in one.causes)


def _rule(found: PartitionRetention, outlook: SegmentOutlook, ahead: frozenset[int]) -> SegmentState:
    causes = outlook.causes
    if outlook.deletion is not None:
        return _DELETIONS[outlook.deletion.rule]
    if outlook.trigger is DeletionTrigger.HIGH_WATERMARK:
        return SegmentState.HIGH_WATERMARK
    if found.partition.topic == CLUSTER_METADATA_TOPIC:
        return SegmentState.SNAPSHOT
    if Cause.EMPTY_ACTIVE in causes:
        return SegmentState.ACTIVE
    if Cause.POLICY in causes:
        return SegmentState.COMPACTION if found.settings.config.is_compacted else SegmentState.NO_POLICY
    if Cause.FUTURE_TIMESTAMP in causes:
        return SegmentState.FUTURE
    if Cause.WAITS in causes and (Cause.YOUNG not in causes or outlook.waits_for in ahead):
        return SegmentState.WAITS
    if Cause.UNLIMITED_TIME in causes:
        return SegmentState.UNLIMITED if Cause.UNLIMITED_SIZE in causes else SegmentState.SIZE
    return SegmentState.TIME if Cause.UNLIMITED_SIZE in causes else SegmentState.TIME_AND_SIZE
