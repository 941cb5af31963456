"""The section of a log's page about the next start of a broker on it: the work, and the records that it removes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.inspect.log.report import LogReport
from tidelog.storage.log.load.load_plan import RecoveryReason
from tidelog.storage.segment.file_names import FileKind, SegmentFileName
from tidelog.web import urls
from tidelog.web.page import Column, Kind, Row, Section, Table
from tidelog.web.request import PageRequest

_REASONS = {
    RecoveryReason.UNFLUSHED: "it has the recovery point, or lies above it",
    RecoveryReason.INDEX_MISSING: "its .index is missing",
    RecoveryReason.INDEX_CORRUPT: "an index of it is invalid",
}


def start_section(request: PageRequest, report: LogReport) -> Section:
    """Return the section. Its rows are the steps of the start, in their sequence."""
    key, name = request.log_dir.key, request.log_name
    rows = list(_steps(report))
    shown, paging = request.query.paged("next_start", rows, size=50)
    return Section(
        name="next_start",
        title="Next start",
        text=" ".join(_sentences(report)),
        table=Table(
            columns=[
                Column(name="step"),
                Column(
                    name="subject",
                    kind=Kind.CODE,
                    link=lambda row: (
                        None if row["segment"] is None else urls.segment_url(key, name, int(str(row["segment"])))
                    ),
                ),
                Column(name="position", kind=Kind.NUMBER, help="In the file, in bytes"),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="reason"),
            ],
            rows=shown,
            paging=paging,
            empty="There is nothing to do.",
        ),
    )


def _sentences(report: LogReport) -> Iterator[str]:
    yield f"A broker's start does this with the log: {report.start.summary}."
    lost = report.start.lost
    if lost is None:
        return
    more = "" if lost.is_complete else "at least "
    yield (
        f"It removes {lost.bytes:,} bytes. They have {more}{lost.batches:,} complete batches with {more}"
        f"{lost.records:,} records."
    )
    known = report.checkpointed_high_watermark
    if known is not None and known > report.log_end:
        yield (
            f"The checkpointed high watermark is {known:,}: of the records that consumers could read,"
            f" {known - report.log_end:,} offsets are lost unless another replica has them."
        )


def _row(
    step: str,
    subject: str,
    reason: str,
    *,
    size: int | None = None,
    position: int | None = None,
    segment: int | None = None,
) -> Row:
    values = {"step": step, "subject": subject, "position": position, "bytes": size, "reason": reason}
    return {**values, "segment": segment}


def _steps(report: LogReport) -> Iterator[Row]:
    plan, tail = report.start.plan, report.state.invalid_tail
    known = {one.base_offset for one in report.segments}
    if plan is not None:
        yield from _leftovers(report, "remove", plan.leftovers.removals)
        yield from _leftovers(report, "rename", [source for source, _ in plan.leftovers.renames])
        for base in plan.splits:
            segment = base if base in known else None
            yield _row("split", _log(base), "no index can hold its offsets", segment=segment)
        for one in plan.recover:
            size = report.sizes.get(_log(one.base_offset))
            reason = _REASONS[one.reason]
            segment = one.base_offset if one.base_offset in known else None
            yield _row("recover", _log(one.base_offset), reason, size=size, segment=segment)
        for name in plan.trims:
            yield _row("trim", name, "its entries fill less than the file", size=report.sizes.get(name))
    if report.start.lost is not None and tail is not None:
        base = report.state.log_end.segment_base_offset
        yield _row("truncate", tail.path.name, tail.reason, size=tail.length, position=tail.position, segment=base)
        for later in report.start.later:
            yield _row("delete", _log(later.base_offset), "it lies behind the invalid bytes", size=later.size)


def _leftovers(report: LogReport, step: str, names: Sequence[str]) -> Iterator[Row]:
    """Yield a row for all files together. The section of files has a row for each."""
    if names:
        size = sum(max(0, report.sizes.get(name, 0)) for name in names)
        noun = "leftover file" if len(names) == 1 else "leftover files"
        yield _row(step, f"{len(names):,} {noun}", "a crash left them: see the files below", size=size)


def _log(base_offset: int) -> str:
    return str(SegmentFileName(base_offset, FileKind.LOG))
