"""The comparison of a batch's start and end: a range for each partition, and the losses.

==============================================  =========================  ==========================================
a partition                                     range to read              loss
==============================================  =========================  ==========================================
in both, the start not above the end            from start to end          no (the planner reports missing records)
in both, the start above the end                nothing                    yes: the log was truncated or recreated
in the end only (new), found                    from its log start to end  if it does not begin at 0
in the end only (new), gone meanwhile           nothing                    yes
in the start only                               nothing                    yes: it is gone
==============================================  =========================  ==========================================

A loss is an error, or with ``failOnDataLoss`` = ``false`` a warning. In a *replay* of a stream's first batch, the start
is resolved again after the end was written down. It may have partitions that the end lacks (the next batch has them),
and ``latest`` may have moved past the end (the batch was empty then). Neither is a loss. The functions are pure.
Source: Spark's ``KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.model import OffsetOutOfRangeError, TopicPartition
from tidelog.spark.read.planner import Warn
from tidelog.spark.stream.stream_offsets import Offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRanges:
    """The partitions with records to read, as [start, end), and a sentence for every loss."""

    ranges: Mapping[TopicPartition, tuple[int, int]]
    losses: tuple[str, ...]

    def report(self, *, fail: bool, warn: Warn) -> None:
        """Raise OffsetOutOfRangeError for losses if ``fail``, else warn about them."""
        if self.losses and fail:
            raise OffsetOutOfRangeError(
                f"{'; '.join(self.losses)}. Some data may have been lost; "
                "set failOnDataLoss to false to read what is there"
            )
        for loss in self.losses:
            warn(f"{loss}; reading what is there")


def new_partitions(start: Offsets, end: Offsets) -> frozenset[TopicPartition]:
    return frozenset(end.keys() - start.keys())


def batch_ranges(start: Offsets, end: Offsets, new_starts: Offsets, *, replay: bool = False) -> BatchRanges:
    """Return the ranges of the module's table. ``new_starts`` holds the log starts of the ``new_partitions`` found."""
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    losses = [] if replay else [f"{partition} is gone" for partition in sorted(start.keys() - end.keys())]
    for partition in sorted(end):
        first = start.get(partition, new_starts.get(partition))
        if first is None:
            losses.append(f"{partition} was new and is gone")
            continue
        if partition not in start and first != 0:
            losses.append(f"{partition} is new and begins at offset {first} instead of 0")
        if first < end[partition]:
            ranges[partition] = (first, end[partition])
        elif first > end[partition] and not replay:
            losses.append(f"the offset of {partition} went back from {first} to {end[partition]}")
    return BatchRanges(ranges=ranges, losses=tuple(losses))
