"""The pages of exact counts: how many records a log has, and why its offsets say something else.

Counting reads every batch header, so it runs in the background; the page of all logs starts it only on demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Final

from tidelog.inspect.count import PartitionCount, count_partition
from tidelog.model import TidelogError, TopicPartition
from tidelog.web import urls
from tidelog.web.jobs import JobProgress
from tidelog.web.page import Column, Fact, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.cluster import space_of_all
from tidelog.web.pages.row_links import log_column, log_dir_link
from tidelog.web.reports.cluster_facts import is_live
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text, time_text
from tidelog.web.sources import LogDir
from tidelog.web.svg.share_bar import Look, draw_shares

_PARTS: Final[Mapping[str, Look]] = {
    "committed": Look("active"),
    "aborted": Look("deletes", "crosses"),
    "held_back": Look("open", "slash"),
    "control": Look("watermark", "grid"),
    "without_record": Look("soft", "dots"),
}
_MEANINGS: Final = {
    "committed": "records that every consumer gets",
    "aborted": "records of aborted transactions, which only read_uncommitted consumers get",
    "held_back": "records behind an open transaction, which only read_uncommitted consumers get now",
    "control": "markers that end transactions, which no consumer gets",
    "without_record": "offsets without a record: compaction removed it, or a transaction left a gap",
}
_COUNTS = ("records", "committed", "aborted", "held_back", "control", "tombstones", "batches", "bytes")
_KINDS = {"bytes": Kind.BYTES}


@dataclass(frozen=True, slots=True)
class _Counted:
    log_dir: LogDir
    count: PartitionCount


def log_count_page(request: PageRequest) -> Page:
    """Return the page with the exact counts of one log."""
    log_dir, name, partition = request.log_dir, request.log_name, request.partition
    view = request.view()

    def work(progress: JobProgress) -> PartitionCount:
        progress.expect(sum(segment.size for segment in view.state.segments))
        return count_partition(view, partition, advance=progress.advance)

    finished = request.job(
        ("count", log_dir.key, name), work, title=f"counting {name}", signature=log_dir.signature(name)
    )
    count = finished.value
    parts = _parts([count])
    return Page(
        title="Exact counts",
        trail=[
            Link("Cluster", urls.CLUSTER),
            Link(partition.topic, urls.topic_url(partition.topic)),
            Link(name, urls.log_url(log_dir.key, name)),
        ],
        facts=[
            Fact(name="records", value=count.records, kind=Kind.NUMBER, help="The records of a read_uncommitted read"),
            Fact(name="offset_range", title="log end − log start", value=_range(count), kind=Kind.NUMBER),
            *(Fact(name=name, value=getattr(count, name), kind=_KINDS.get(name, Kind.NUMBER)) for name in _COUNTS[1:]),
            Fact(name="log_start", value=count.log_start, kind=Kind.NUMBER),
            Fact(name="last_stable", value=count.last_stable, kind=Kind.NUMBER),
            Fact(name="high_watermark", value=count.high_watermark, kind=Kind.NUMBER),
            Fact(name="log_end", value=count.log_end, kind=Kind.NUMBER),
            Fact(name="records_above_hw", title="records above the high watermark", value=count.records_above_hw),
        ],
        sections=[_parts_section(parts)],
        notes=[_made_note(finished.made_at_ms)],
    )


def count_page(request: PageRequest) -> Page:
    """Return the page with the counts of all logs. The counting starts with the parameter ``run=1``."""
    spaces = space_of_all(request)
    total = sum(space.log_bytes for found in spaces.values() for space in found)
    if not request.query.flag("run"):
        return Page(
            title="Exact counts",
            trail=[Link("Cluster", urls.CLUSTER)],
            facts=[Fact(name="to_read", title="to read", value=total, kind=Kind.BYTES)],
            notes=[
                f"Counting reads the header of every batch: {size_text(total)} of segments. It runs in the background."
            ],
            links=[Link("Count all records", urls.with_query(urls.COUNT, {"run": 1}))],
        )
    names = [(one, partition) for one in request.sources.log_dirs for partition in one.partitions()]

    def work(progress: JobProgress) -> list[_Counted]:
        progress.expect(total)
        return [_Counted(one, _count(one, partition, progress)) for one, partition in names]

    is_held = is_live(request)
    signature = None if is_held else (total, tuple((one.key, partition) for one, partition in names))
    finished = request.job("count", work, title="counting all records", signature=signature, is_repeatable=True)
    rows, paging = request.query.paged(
        "logs",
        finished.value,
        keys={
            "log": lambda one: str(one.count.partition),
            **{name: attrgetter(f"count.{name}") for name in _COUNTS},
        },
        sort="-records",
    )
    once = _once(finished.value)
    again = {"run": 1, "newer": finished.made_at_ms}
    return Page(
        title="Exact counts",
        trail=[Link("Cluster", urls.CLUSTER)],
        facts=[
            Fact(name=name, value=sum(getattr(count, name) or 0 for count in once), kind=_KINDS.get(name, Kind.NUMBER))
            for name in _COUNTS
        ],
        sections=[
            _parts_section(_parts(once)),
            Section(
                name="logs",
                title="Logs",
                table=Table(columns=_columns(), rows=[_row(one) for one in rows], paging=paging),
            ),
        ],
        notes=[
            _made_note(finished.made_at_ms),
            *(
                ["The sums have each partition once, from the log that ends last."]
                if len(once) < len(finished.value)
                else []
            ),
        ],
        links=[Link("Count again", urls.with_query(urls.COUNT, again))],
    )


def _count(log_dir: LogDir, partition: TopicPartition, progress: JobProgress) -> PartitionCount:
    directory = log_dir.path / partition.directory_name
    try:
        view = log_dir.view(partition.directory_name)
        return count_partition(view, partition, headers_only=True, advance=progress.advance)
    except TidelogError as error:
        progress.advance(0)  # a cancelled job ends here
        return PartitionCount(partition=partition, directory=directory, error=error)


def _once(counted: Sequence[_Counted]) -> list[PartitionCount]:
    """Return a count for each partition."""
    best: dict[TopicPartition, PartitionCount] = {}
    for one in counted:
        known = best.get(one.count.partition)
        if known is None or known.log_end < one.count.log_end:
            best[one.count.partition] = one.count
    return list(best.values())


def _range(count: PartitionCount) -> int:
    return count.log_end - count.log_start


def _parts(counts: Sequence[PartitionCount]) -> list[Row]:
    sums = {name: sum(getattr(count, name) for count in counts) for name in ("committed", "aborted", "held_back")}
    control = sum(count.control for count in counts)
    missing = sum(_range(count) for count in counts) - sum(sums.values()) - control
    values = {**sums, "control": control, "without_record": missing}
    return [{"part": name, "offsets": values[name], "meaning": _MEANINGS[name]} for name in _PARTS]


def _parts_section(parts: Sequence[Row]) -> Section:
    items = [{"part": part["part"], "offsets": part["offsets"]} for part in parts]
    return Section(
        name="parts",
        title="The offsets from the log start to the log end",
        text="Offsets do not count records: markers take offsets, and compaction and transactions leave gaps.",
        picture=Picture(
            items=items,
            draw=lambda: draw_shares(items, _PARTS, title="Offsets", name="part", value="offsets"),
        ),
        table=Table(
            columns=[Column(name="part"), Column(name="offsets", kind=Kind.NUMBER), Column(name="meaning")], rows=parts
        ),
    )


def _columns() -> list[Column]:
    return [
        log_column(),
        Column(name="directory", title="log directory", kind=Kind.CODE, link=log_dir_link),
        *(Column(name=name, kind=_KINDS.get(name, Kind.NUMBER)) for name in _COUNTS if name != "tombstones"),
        Column(name="error"),
    ]


def _row(one: _Counted) -> Row:
    count = one.count
    known = count.error is None
    values = {name: value if known else None for name, value in asdict(count).items() if name in _COUNTS}
    return {
        "log": count.partition.directory_name,
        "log_dir": one.log_dir.key,
        "directory": str(one.log_dir.path),
        **values,
        "error": None if count.error is None else str(count.error),
    }


def _made_note(made_at_ms: int) -> str:
    return f"Counted at {time_text(made_at_ms)}."
