"""The findings of ``verify`` as rows and pictures of pages, with links to the bytes.

A finding's row has the file's place; a link is made for the shown rows only, because it looks whether the segment still
exists. Thread rule: any thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.verify import Finding, Severity
from tidelog.inspect.verify.damage_map import damaged_ranges, segment_ranges
from tidelog.inspect.verify.directory_check import VerifiedDirectory, VerifiedPartition
from tidelog.model import TidelogError
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import list_with_sizes
from tidelog.storage.segment.file_names import FileKind
from tidelog.web import urls
from tidelog.web.page import Column, Kind, Picture, Row
from tidelog.web.reports.file_places import FilePlace
from tidelog.web.sources import LogDir, Sources
from tidelog.web.svg.damage import DamageLane, draw_damage

_MOST_SEGMENTS = 100
_MOST_DAMAGED = 150
_MOST_LANES = 12
SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFindings:
    """A log's findings. ``sizes`` are those of its ``.log`` files by base offset if one of them has a finding."""

    log_dir: LogDir
    verified: VerifiedPartition
    sizes: Mapping[int, int]

    @property
    def name(self) -> str:
        return self.verified.directory.name

    def count(self, severity: str) -> int:
        return sum(one.severity.value == severity for one in self.verified.findings)

    @property
    def is_damaged(self) -> bool:
        """True if a range of a ``.log`` has an error or a warning."""
        return bool(self.sizes)


def log_findings(fs: FileSystem, log_dir: LogDir, verified: VerifiedPartition) -> LogFindings:
    """Return a log's findings with the sizes that the picture needs."""
    is_damaged = any(one.position is not None and one.path.name.endswith(FileKind.LOG) for one in verified.findings)
    return LogFindings(
        log_dir=log_dir, verified=verified, sizes=log_sizes(fs, verified.directory) if is_damaged else {}
    )


def log_sizes(fs: FileSystem, directory: Path) -> dict[int, int]:
    """Return the sizes of a log's ``.log`` files by base offset. They are empty if it cannot be listed."""
    try:
        segments = list_with_sizes(fs, directory).segments
    except TidelogError:
        return {}
    return {one.base_offset: max(0, one.sizes[FileKind.LOG]) for one in segments}


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding, and the log that it is about; None for a file of the log directory itself."""

    finding: Finding
    log_dir: LogDir
    log: LogFindings | None

    @property
    def log_name(self) -> str:
        return "" if self.log is None else self.log.name


def all_findings(
    directories: Iterable[tuple[LogDir, VerifiedDirectory]], logs: Iterable[LogFindings]
) -> Iterator[PlacedFinding]:
    """Yield the findings of log directories' own files, and then those of their logs."""
    for log_dir, directory in directories:
        for finding in directory.findings:
            yield PlacedFinding(finding, log_dir, None)
    for log in logs:
        for finding in log.verified.findings:
            yield PlacedFinding(finding, log.log_dir, log)


def severity_rank(severity: Severity) -> int:
    return SEVERITIES.index(severity.value)


def severity_counts(findings: Iterable[PlacedFinding]) -> Mapping[str, int]:
    counts = Counter(one.finding.severity.value for one in findings)
    return {severity: counts[severity] for severity in SEVERITIES}


def finding_row(sources: Sources, placed: PlacedFinding) -> Row:
    """Return the row. The URLs in it are None where there is no page."""
    finding, log = placed.finding, placed.log
    place = FilePlace.of(sources, finding.path)
    verified = None if log is None else log.verified
    return {
        "severity": finding.severity.value,
        "directory": str(placed.log_dir.path),
        "log": placed.log_name or None,
        "file": finding.path.name,
        "position": finding.position,
        "end_position": finding.end_position,
        "offset": finding.offset,
        "message": finding.message,
        "next_good_position": finding.next_good_position,
        "next_good_offset": finding.next_good_offset,
        "urls": {
            "log": None if log is None else urls.log_url(log.log_dir.key, log.name),
            "file": None if place is None else place.url,
            "position": None if place is None else place.batch_url(finding.position),
            "offset": _offset_url(placed.log_dir, verified, finding.offset),
            "next_good_position": None if place is None else place.batch_url(finding.next_good_position),
        },
    }


def _offset_url(log_dir: LogDir, verified: VerifiedPartition | None, offset: int | None) -> str | None:
    if verified is None or offset is None or verified.log_start is None or verified.log_end is None:
        return None
    is_readable = verified.log_start <= offset < verified.log_end
    return urls.records_url(log_dir.key, verified.directory.name, start=offset) if is_readable else None


def finding_columns(*, with_log: bool, with_directory: bool) -> list[Column]:
    return [
        Column(name="severity"),
        *([Column(name="directory", kind=Kind.CODE)] if with_directory else []),
        *([Column(name="log", kind=Kind.CODE, link=lambda row: _url(row, "log"))] if with_log else []),
        Column(name="file", kind=Kind.CODE, link=lambda row: _url(row, "file")),
        Column(
            name="position",
            kind=Kind.NUMBER,
            link=lambda row: _url(row, "position"),
            help="The byte in the file; the link shows the bytes",
        ),
        Column(name="offset", kind=Kind.NUMBER, link=lambda row: _url(row, "offset")),
        Column(name="message"),
        Column(
            name="next_good_position",
            title="next good batch at",
            kind=Kind.NUMBER,
            link=lambda row: _url(row, "next_good_position"),
            help="The position of the next batch with a right CRC after damage",
        ),
    ]


def _url(row: Row, name: str) -> str | None:
    found = row["urls"]
    assert isinstance(found, dict)
    url = found[name]
    return url if isinstance(url, str) else None


def damage_picture(logs: Sequence[LogFindings], *, with_directory: bool) -> Picture | None:
    """Return the damage map of the logs with the most damaged ranges, at most 12 of them; None if there is none."""
    damaged = sorted((one for one in logs if one.is_damaged), key=lambda one: -one.count("error"))[:_MOST_LANES]
    lanes = [_lane(one, len(damaged), with_directory=with_directory) for one in damaged]
    if not lanes:
        return None
    items = [item for lane in lanes for item in (*lane.segments, *lane.damage)]
    keys = {one.log_dir.key: one.log_dir for one in damaged}
    return Picture(
        items=items,
        draw=lambda: draw_damage(lanes, tip=_tip, url=lambda item: _item_url(keys, item)),
    )


def _lane(log: LogFindings, lanes: int, *, with_directory: bool) -> DamageLane:
    about = {"log_dir": log.log_dir.key, "log": log.name}
    segments: list[Row] = [
        about | {"segment": one.base_offset, "segments": one.segments, "start": one.start, "end": one.end}
        for one in segment_ranges(log.sizes, max(4, _MOST_SEGMENTS // lanes))
    ]
    damage: list[Row] = [
        about
        | {
            "segment": one.base_offset,
            "position": one.position,
            "start": one.start,
            "end": one.end,
            "findings": one.findings,
            "severity": one.severity.value,
        }
        for one in damaged_ranges(log.verified.findings, log.sizes, max(8, _MOST_DAMAGED // lanes))
    ]
    label = f"{log.name} in {log.log_dir.path.name}" if with_directory else log.name
    return DamageLane(label=label, bytes=sum(log.sizes.values()), segments=segments, damage=damage)


def _tip(item: Row) -> str:
    start, end = int(str(item["start"])), int(str(item["end"]))
    if "severity" not in item:
        return (
            f"{item['log']}: segment {item['segment']}, {end - start:,} bytes"
            if item["segments"] == 1
            else f"{item['log']}: {item['segments']:,} segments from {item['segment']} on, {end - start:,} bytes"
        )
    number = int(str(item["findings"]))
    return (
        f"{item['log']}: {number:,} finding{'' if number == 1 else 's'} ({item['severity']}) in {end - start:,} bytes"
        f" from position {item['position']:,} of segment {item['segment']}"
    )


def _item_url(log_dirs: Mapping[str, LogDir], item: Row) -> str:
    key, log, base = str(item["log_dir"]), str(item["log"]), int(str(item["segment"]))
    if "severity" in item:
        return urls.batch_url(key, log, base, int(str(item["position"])))
    return urls.segment_url(key, log, base)
