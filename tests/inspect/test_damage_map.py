"""Findings as ranges of a log's bytes: their places, and how neighbours are joined."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tidelog.inspect.verify import Finding, Severity
from tidelog.inspect.verify.damage_map import damaged_ranges, segment_ranges

SIZES = {0: 1000, 50: 500, 90: 2000}
DIRECTORY = Path("/logs/t-0")


def finding(
    base: int, position: int | None, end: int | None, severity: Severity = Severity.ERROR, kind: str = ".log"
) -> Finding:
    path = DIRECTORY / f"{base:020}{kind}"
    return Finding(path=path, message="x", severity=severity, position=position, end_position=end)


def test_positions_count_from_the_start_of_the_log() -> None:
    found = damaged_ranges([finding(90, 100, 300), finding(50, 20, 40)], SIZES, 10)
    assert [(one.base_offset, one.position, one.start, one.end) for one in found] == [
        (50, 20, 1020, 1040),
        (90, 100, 1600, 1800),
    ]


def test_ranges_of_one_severity_that_touch_are_joined() -> None:
    findings = [
        finding(0, 100, 200),
        finding(0, 200, 300),
        finding(0, 150, 160),
        finding(0, 300, 400, Severity.WARNING),
        finding(0, 500, None),
    ]
    found = damaged_ranges(findings, SIZES, 10)
    assert [(one.start, one.end, one.findings, one.severity) for one in found] == [
        (100, 300, 3, Severity.ERROR),
        (300, 400, 1, Severity.WARNING),
        (500, 500, 1, Severity.ERROR),
    ]


def test_neighbours_are_joined_beyond_a_number_and_no_finding_is_lost() -> None:
    findings = [finding(90, position, position + 1) for position in range(0, 2000, 10)]
    findings[3] = finding(90, 30, 31, Severity.NOTE)
    found = damaged_ranges(findings, SIZES, 20)
    assert len(found) <= 20
    assert sum(one.findings for one in found) == 200
    assert {one.severity for one in found} == {Severity.ERROR}
    assert all(before.end < after.start for before, after in pairwise(found))


def test_findings_without_a_place_in_a_live_log_are_left_out() -> None:
    others = [
        finding(0, 5, 6, kind=".index"),
        finding(0, 5, 6, kind=".log.deleted"),
        finding(7, 5, 6),
        finding(0, None, None),
        Finding(path=DIRECTORY / "leader-epoch-checkpoint", message="x", position=3),
    ]
    assert damaged_ranges(others, SIZES, 10) == []


def test_a_range_ends_with_its_segment() -> None:
    (found,) = damaged_ranges([finding(50, 400, 10_000)], SIZES, 10)
    assert (found.start, found.end) == (1400, 1500)


def test_segments() -> None:
    found = segment_ranges(SIZES, 10)
    assert [(one.base_offset, one.segments, one.start, one.end) for one in found] == [
        (0, 1, 0, 1000),
        (50, 1, 1000, 1500),
        (90, 1, 1500, 3500),
    ]
    many = segment_ranges(dict.fromkeys(range(1000), 7), 40)
    assert len(many) == 40
    assert sum(one.segments for one in many) == 1000
    assert (many[0].start, many[-1].end) == (0, 7000)
    assert all(before.end == after.start for before, after in pairwise(many))
    empty = segment_ranges(dict.fromkeys(range(100), 0), 40)
    assert sum(one.segments for one in empty) == 100
    assert segment_ranges({}, 4) == []
