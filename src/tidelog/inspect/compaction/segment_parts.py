"""The part of each segment in the next clean, and the segments that the clean joins. Pure.

=============  ==========================================================  ===========================================
part           segment                                                     the next clean
=============  ==========================================================  ===========================================
CLEAN          it ends at or below the first dirty offset                  rewrites it: its records may be obsolete
BOTH           the first dirty offset lies inside of it                    reads its keys from there, and rewrites it
DIRTY          between the first dirty offset and the end of the clean     reads its keys, and rewrites it
UNCLEANABLE    from the end of the clean on                                does not touch it
=============  ==========================================================  ===========================================

A clean without dirty bytes does nothing. Source of the groups: ``storage/cleaner/clean/segment_groups.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.storage.cleaner.clean.segment_groups import SegmentSizes, group_segments
from tidelog.storage.cleaner.plan.log_plan import LogPlan
from tidelog.storage.segment.file_names import FileKind, SegmentFileName


class CleaningPart(enum.StrEnum):
    """The parts of the module's table."""

    CLEAN = "clean"
    BOTH = "clean and dirty"
    DIRTY = "dirty"
    UNCLEANABLE = "not cleanable"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """``group`` counts the segments that the next clean writes, from 0; None if the segment stays as it is."""

    base_offset: int
    end_offset: int
    size_bytes: int
    part: CleaningPart
    is_active: bool
    group: int | None


def segment_parts(plan: LogPlan, sizes: Mapping[str, int]) -> list[SegmentPart]:
    """Return the parts by ascending base offset. ``sizes`` are those of the files in the partition's directory."""
    segments = plan.facts.segments
    ends = [*(segment.base_offset for segment in segments[1:]), plan.facts.end_offset] if segments else []
    groups = _groups(plan, sizes) if plan.dirty_bytes else {}
    return [
        SegmentPart(
            base_offset=segment.base_offset,
            end_offset=end,
            size_bytes=segment.size_bytes,
            part=_part(plan, segment.base_offset, end),
            is_active=segment is segments[-1],
            group=groups.get(segment.base_offset),
        )
        for segment, end in zip(segments, ends, strict=True)
    ]


def _part(plan: LogPlan, base_offset: int, end: int) -> CleaningPart:
    if base_offset >= plan.end_offset:
        return CleaningPart.UNCLEANABLE
    if end <= plan.first_dirty_offset:
        return CleaningPart.CLEAN
    return CleaningPart.BOTH if base_offset < plan.first_dirty_offset else CleaningPart.DIRTY


def _groups(plan: LogPlan, sizes: Mapping[str, int]) -> dict[int, int]:
    """Return the number of each rewritten segment's group by base offset."""

    def size(base_offset: int, kind: FileKind) -> int:
        return sizes.get(str(SegmentFileName(base_offset, kind)), 0)

    rewritten = [
        SegmentSizes(
            segment.base_offset,
            segment.size_bytes,
            size(segment.base_offset, FileKind.INDEX),
            size(segment.base_offset, FileKind.TIME_INDEX),
        )
        for segment in plan.facts.segments
        if segment.base_offset < plan.end_offset
    ]
    groups = group_segments(rewritten, plan.facts.config, first_uncleanable=plan.end_offset)
    return {rewritten[at].base_offset: number for number, group in enumerate(groups) for at in group}
