"""The end of a partition in a snapshot: the first record that is left out.

=============================================  ========================================================================
the snapshot is                                a partition ends
=============================================  ========================================================================
at a time                                      at its first record with a later timestamp. Records after that one are
                                               left out too, even if their timestamps are earlier: the snapshot is a
                                               prefix of the log. Control records count, so a transaction whose marker
                                               is later is open. A record without a timestamp is never later
at offsets, and the partition has one          at that offset, within [log start, log end]
neither, or no record is later                 at the log end: after the last complete batch, as recovery would leave it
=============================================  ========================================================================

The lookup of the time is that of ListOffsets (``time_lookup``) for the next millisecond. Reads only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.model import Isolation, TopicPartition
from tidelog.storage.log.view.log_view import LogView

_LAST_MS = 2**63 - 1


class EndedBy(enum.StrEnum):
    """The rule that decided a partition's end."""

    TIME = "time"
    OFFSET = "offset"
    LOG_END = "log_end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The moment of a snapshot: a time in ms (None: no time), and offsets that win over it."""

    at_ms: int | None = None
    at_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnd:
    """The end of a partition. ``offset`` is the first offset that is left out, and the log end of the snapshot."""

    offset: int
    by: EndedBy
    log_start: int
    log_end: int
    """The bounds of the source's log when it was read."""
    first_left_out_ms: int | None = None
    """The timestamp of the first record that is left out, if a time decided."""
    wanted: int | None = None
    """The offset that was asked for, if it lies outside of the log."""

    @property
    def offsets_left_out(self) -> int:
        return self.log_end - self.offset


def find_end(view: LogView, partition: TopicPartition, moment: Moment) -> PartitionEnd:
    """Find the end of a partition. Raise CorruptRecordError if a batch on the way is damaged."""
    start, end = view.log_start, view.log_end
    wanted = moment.at_offsets.get(partition)
    if wanted is not None:
        offset = max(start, min(wanted, end))
        outside = None if offset == wanted else wanted
        return PartitionEnd(offset=offset, by=EndedBy.OFFSET, log_start=start, log_end=end, wanted=outside)
    if moment.at_ms is not None and moment.at_ms < _LAST_MS:
        later = view.offset_for_timestamp(moment.at_ms + 1, isolation=Isolation.LOG_END)
        if later is not None:
            return PartitionEnd(
                offset=later.offset, by=EndedBy.TIME, log_start=start, log_end=end, first_left_out_ms=later.timestamp
            )
    return PartitionEnd(offset=end, by=EndedBy.LOG_END, log_start=start, log_end=end)
