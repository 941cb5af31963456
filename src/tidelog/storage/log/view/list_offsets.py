"""The offsets of a log that ListOffsets finds by name or by time. Pure.

=======================  ==  ============================  ============================================================
name                         offset                        leader epoch
=======================  ==  ============================  ============================================================
latest                   -1  the end of the read           the latest
earliest                 -2  the log start                 the earliest, if it began at or below the log start
max_timestamp            -3  first record with the         the record's
                             largest timestamp
earliest_local           -4  as earliest: all is local     as earliest
latest_tiered            -5  -1: no tiered storage         -1
earliest_pending_upload  -6  -1: no tiered storage         -1
(a time, ms)                 first record at or after it   the record's
=======================  ==  ============================  ============================================================

The end of the read is the log end, the high watermark or the last stable offset, depending on the caller's isolation.
Source: Kafka's ``ListOffsetsRequest``, ``UnifiedLog.fetchOffsetByTimestamp`` (KIP-79, KIP-734, KIP-405, KIP-1023).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.storage.epoch import LeaderEpochCache
from tidelog.storage.index import TimestampOffset


class OffsetSpec(enum.IntEnum):
    """Kafka's numbers for named offsets; see the module's table."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset. ``timestamp`` (ms) is set if a record was found; ``leader_epoch`` is set if it is known."""

    offset: int
    timestamp: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """A log's offsets, epochs and timestamp searches."""

    log_start: int
    end: int
    epochs: LeaderEpochCache
    first_at_or_after: Callable[[int], TimestampOffset | None]
    latest_timestamp: Callable[[], TimestampOffset | None]


def list_offset(timestamp: int, log: ListRequest) -> ListedOffset | None:
    """Return the offset for a time or an ``OffsetSpec``. Return None if no record is that late or has a timestamp.

    Raise ValueError for an unknown negative number.
    """
    if timestamp >= 0:
        return _of_record(log.first_at_or_after(timestamp), log.epochs)
    match OffsetSpec(timestamp):
        case OffsetSpec.LATEST:
            return ListedOffset(offset=log.end, leader_epoch=log.epochs.latest_epoch)
        case OffsetSpec.MAX_TIMESTAMP:
            return _of_record(log.latest_timestamp(), log.epochs)
        case OffsetSpec.LATEST_TIERED | OffsetSpec.EARLIEST_PENDING_UPLOAD:
            return ListedOffset(offset=-1, leader_epoch=-1)
    earliest = log.epochs.earliest_entry
    known = earliest is not None and earliest.start_offset <= log.log_start
    return ListedOffset(offset=log.log_start, leader_epoch=earliest.epoch if earliest and known else None)


def _of_record(found: TimestampOffset | None, epochs: LeaderEpochCache) -> ListedOffset | None:
    if found is None:
        return None
    return ListedOffset(
        offset=found.offset, timestamp=found.timestamp, leader_epoch=epochs.epoch_for_offset(found.offset)
    )
