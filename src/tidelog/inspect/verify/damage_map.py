"""The findings in a log's ``.log`` files as ranges of its bytes, joined where they touch. Pure.

The bytes of a log are those of its segments in sequence, as if they were one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.storage.segment.file_names import FileKind, FileState, SegmentFileName

_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Neighbouring segments. Positions count from the start of the log."""

    base_offset: int
    segments: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRange:
    """A range with findings. ``start`` and ``end`` count from the start of the log."""

    base_offset: int
    """The segment of the first finding."""
    position: int
    """The first finding's position in that segment's file."""
    start: int
    end: int
    findings: int
    severity: Severity
    """The worst one."""


def segment_ranges(sizes: Mapping[int, int], most: int) -> list[SegmentRange]:
    """Return the segments by their base offsets and sizes, joined to at most ``most`` ranges of about equal sizes."""
    bases = sorted(sizes)
    starts = list(accumulate((sizes[base] for base in bases), initial=0))
    total = max(1, starts[-1])
    found: list[SegmentRange] = []
    before = None
    for number, base in enumerate(bases):
        piece = number if len(bases) <= most else min(most - 1, starts[number] * most // total)
        if piece == before:
            found[-1] = replace(found[-1], segments=found[-1].segments + 1, end=starts[number + 1])
        else:
            end = starts[number + 1]
            found.append(SegmentRange(base_offset=base, segments=1, start=starts[number], end=end))
        before = piece
    return found


def damaged_ranges(findings: Iterable[Finding], sizes: Mapping[int, int], most: int) -> list[DamagedRange]:
    """Return the ranges of the findings that have a position in a live ``.log``, in the sequence of the log.

    Ranges of a kind that touch are joined. Neighbours are joined beyond ``most`` ranges.
    """
    bases = sorted(sizes)
    starts = dict(zip(bases, accumulate((sizes[base] for base in bases), initial=0), strict=False))
    found = sorted(_ranges(findings, starts, sizes), key=lambda one: (one.start, one.end))
    gap = 0
    joined = _join(found, gap)
    while len(joined) > most:
        gap = max(1, 2 * gap)
        joined = _join(found, gap)
    return joined


def _ranges(findings: Iterable[Finding], starts: Mapping[int, int], sizes: Mapping[int, int]) -> Iterator[DamagedRange]:
    for finding in findings:
        name = SegmentFileName.parse(finding.path.name)
        if name is None or (name.kind, name.state) != (FileKind.LOG, FileState.LIVE):
            continue
        if finding.position is None or name.offset not in starts:
            continue
        end = finding.position if finding.end_position is None else finding.end_position
        base = starts[name.offset]
        yield DamagedRange(
            base_offset=name.offset,
            position=finding.position,
            start=base + min(finding.position, sizes[name.offset]),
            end=base + min(max(end, finding.position), sizes[name.offset]),
            findings=1,
            severity=finding.severity,
        )


def _join(found: Sequence[DamagedRange], gap: int) -> list[DamagedRange]:
    joined: list[DamagedRange] = []
    for one in found:
        last = joined[-1] if joined else None
        if last is not None and one.start <= last.end + gap and (gap or one.severity is last.severity):
            joined[-1] = replace(
                last,
                end=max(last.end, one.end),
                findings=last.findings + one.findings,
                severity=min(last.severity, one.severity, key=_RANKS.__getitem__),
            )
        else:
            joined.append(one)
    return joined
