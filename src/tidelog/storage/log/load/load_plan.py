"""The segments that loading must recover, decided from names, sizes and the recovery point. Pure.

==========================  =====================  ==========================  ====================================
a segment's index           clean shutdown         unclean shutdown, the       unclean shutdown, the recovery point
                                                   recovery point is in a      is in this segment or below it
                                                   later segment
==========================  =====================  ==========================  ====================================
``.index`` missing          INDEX_MISSING          INDEX_MISSING               UNFLUSHED (``index_lost``)
an index is invalid         INDEX_CORRUPT          INDEX_CORRUPT               UNFLUSHED (``index_lost`` if it is the
                                                                               ``.txnindex``)
else                        kept                   kept                        UNFLUSHED
==========================  =====================  ==========================  ====================================

``index_check`` defines an invalid index. It checks less after a clean shutdown.

``index_lost`` has one effect. Kafka recovers this segment while it lists the files, before it looks for unflushed
segments. It therefore does not notice a truncated tail, and keeps the segments after it. We end with the same files. A
missing ``.timeindex`` alone is no error: an empty one is created. Source: Kafka's ``LogLoader`` and
``LogSegment.sanityCheck``. Kafka 4.1 no longer reads ``.index`` and ``.timeindex`` here; we do, at as little cost.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidelog.storage.log.load.listing import PartitionListing
from tidelog.storage.segment.file_names import FileKind


class RecoveryReason(enum.StrEnum):
    UNFLUSHED = "unflushed"
    INDEX_MISSING = "index missing"
    INDEX_CORRUPT = "index corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentToRecover:
    base_offset: int
    reason: RecoveryReason
    index_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The segments to recover and the time indexes to create, with ascending base offsets."""

    recover: tuple[SegmentToRecover, ...]
    new_time_indexes: tuple[int, ...]
    """Kept segments without a ``.timeindex``."""

    @property
    def base_offsets(self) -> frozenset[int]:
        return frozenset(segment.base_offset for segment in self.recover)


def decide_recovery(
    listing: PartitionListing,
    *,
    clean_shutdown: bool,
    recovery_point: int,
    corrupt: Mapping[int, frozenset[FileKind]],
) -> LoadPlan:
    """Decide the recovery. ``corrupt`` holds the invalid indexes by their segment's base offset."""
    first_unflushed = None if clean_shutdown else first_unflushed_base(listing.base_offsets, recovery_point)
    recover, new_time_indexes = [], []
    for segment in listing.segments:
        base = segment.base_offset
        bad = corrupt.get(base, frozenset())
        missing = FileKind.INDEX not in segment.kinds
        if first_unflushed is not None and base >= first_unflushed:
            lost = missing or FileKind.TXN_INDEX in bad
            recover.append(SegmentToRecover(base_offset=base, reason=RecoveryReason.UNFLUSHED, index_lost=lost))
        elif missing or bad:
            reason = RecoveryReason.INDEX_MISSING if missing else RecoveryReason.INDEX_CORRUPT
            recover.append(SegmentToRecover(base_offset=base, reason=reason, index_lost=True))
        elif FileKind.TIME_INDEX not in segment.kinds:
            new_time_indexes.append(base)
    return LoadPlan(recover=tuple(recover), new_time_indexes=tuple(new_time_indexes))


def first_unflushed_base(base_offsets: Iterable[int], recovery_point: int) -> int | None:
    """Return the base of the segment that holds the recovery point, or the first segment's if all lie above it."""
    bases = sorted(base_offsets)
    if not bases:
        return None
    return max((base for base in bases if base <= recovery_point), default=bases[0])
