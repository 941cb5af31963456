"""Which segments loading has to recover, decided from names, sizes and the recovery point. Pure.

==========================  =====================  ==========================  ====================================
a segment's index           stopped in order       killed, the recovery point  killed, the recovery point is in it
                                                   is in a later segment       or below it
==========================  =====================  ==========================  ====================================
``.index`` missing          INDEX_MISSING          INDEX_MISSING               UNFLUSHED (``index_lost``)
an index contradicts        INDEX_CORRUPT          INDEX_CORRUPT               UNFLUSHED (``index_lost`` if it is the
itself                                                                         ``.txnindex``)
else                        kept                   kept                        UNFLUSHED
==========================  =====================  ==========================  ====================================

What "contradicts itself" means is ``index_check``'s; after an orderly stop less is asked.

``index_lost`` changes one thing: Kafka recovers such a segment while it lists the files and only then looks for
unflushed ones, so it does not see that a tail was cut, and keeps the segments behind it. We end with the same files.
A missing ``.timeindex`` alone is not an error: an empty one is made. Source: Kafka's ``LogLoader`` and
``LogSegment.sanityCheck``; 4.1 no longer looks into ``.index`` and ``.timeindex`` here, we do, as cheaply.
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
    """Base offsets ascend."""

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
    """``corrupt``: the indexes that contradict themselves, by base offset of their segment."""
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
    """Base offset of the segment that holds the recovery point, the first segment's if all lie above it."""
    bases = sorted(base_offsets)
    if not bases:
        return None
    return max((base for base in bases if base <= recovery_point), default=bases[0])
