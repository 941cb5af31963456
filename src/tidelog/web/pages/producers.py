"""The page of all producers: the logs that know most of them, and the logs of each producer.

It reads the newest snapshot of each log and no log itself, so a broker with 10,000 logs takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.inspect.producers import ProducerTotal
from tidelog.web import urls
from tidelog.web.page import Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.log_producers import expiration_fact, log_producers_page, producer_columns, producer_row
from tidelog.web.pages.row_links import producer_column
from tidelog.web.reports.producer_report import (
    MOST_PRODUCERS,
    LogSnapshots,
    ProducerInLog,
    ProducerReport,
    find_producer,
    producer_report,
)
from tidelog.web.request import PageRequest
from tidelog.web.svg.bars import draw_bars

__all__ = ["log_producers_page", "producers_page"]

_MOST_BARS = 20
_LONG = 2**63 - 1


def producers_page(request: PageRequest) -> Page:
    """Return the page of all producers, or with the parameter ``producer`` the logs that know one of them."""
    wanted = request.query.integer("producer", -1, minimum=-1, maximum=_LONG)
    finished = producer_report(request)
    report = finished.value
    form = [FormField(name="producer", title="Producer id", value="" if wanted < 0 else str(wanted), hint="a number")]
    summaries = [one.summary for one in report.logs]
    sections = [_logs_section(request, report), _totals_section(request, report)]
    if wanted >= 0:
        sections.insert(0, _found_section(request, report, wanted))
    expirations = list(dict.fromkeys(report.expirations.values()))
    return Page(
        title="Producers",
        trail=[Link("Cluster", urls.CLUSTER)],
        form=form,
        facts=[
            Fact(name="producers", value=report.producer_count, kind=Kind.NUMBER, help="Different producer ids"),
            Fact(name="entries", value=sum(one.producers for one in summaries), kind=Kind.NUMBER),
            Fact(
                name="open",
                title="entries with an open transaction",
                value=sum(one.open for one in summaries),
                kind=Kind.NUMBER,
            ),
            Fact(
                name="expired", title="expired entries", value=sum(one.expired for one in summaries), kind=Kind.NUMBER
            ),
            Fact(name="logs", value=len(report.logs), kind=Kind.NUMBER),
            Fact(
                name="snapshot_bytes",
                title="snapshots",
                value=sum(one.snapshot_bytes for one in summaries),
                kind=Kind.BYTES,
            ),
            expiration_fact(expirations[0]),
            Fact(name="as_of", value=finished.made_at_ms, kind=Kind.TIME),
        ],
        notes=[f"Error: {error}." for error in report.errors],
        links=[Link("Read again", urls.with_query(urls.PRODUCERS, {"newer": finished.made_at_ms}))],
        sections=sections,
    )


# --- logs ---


def _logs_section(request: PageRequest, report: ProducerReport) -> Section:
    keys: Mapping[str, Callable[[LogSnapshots], Any]] = {
        "log": lambda one: one.summary.partition,
        "producers": lambda one: one.summary.producers,
        "open": lambda one: one.summary.open,
        "expired": lambda one: one.summary.expired,
        "oldest": lambda one: one.summary.oldest_ms,
        "newest": lambda one: one.summary.newest_ms,
        "snapshot_bytes": lambda one: one.summary.snapshot_bytes,
    }
    known = [one for one in report.logs if one.summary.snapshots]
    shown, paging = request.query.paged("logs", known, keys=keys, sort="-producers")
    return Section(
        name="logs",
        title="Logs with most producers",
        text=(
            "The counts are those of the newest snapshot, which a broker writes when it rolls a segment and at a clean"
            " shutdown; the page of a log also reads the batches after it. Every producer id costs the broker memory"
            " until it expires, so a log with very many has clients that take a new id again and again."
        ),
        picture=_bars(known),
        table=Table(
            columns=[
                Column(
                    name="log",
                    kind=Kind.CODE,
                    link=lambda row: urls.log_part_url(str(row["log_dir"]), str(row["log"]), "producers"),
                ),
                Column(name="producers", kind=Kind.NUMBER),
                Column(name="open", kind=Kind.NUMBER, help="Producers with an open transaction"),
                Column(name="expired", kind=Kind.NUMBER, help="Producers that a broker forgets when it loads the log"),
                Column(name="oldest", kind=Kind.TIME, help="The last batch of the longest silent producer"),
                Column(name="newest", kind=Kind.TIME),
                Column(name="offset", title="as of offset", kind=Kind.NUMBER),
                Column(name="snapshots", kind=Kind.NUMBER),
                Column(name="snapshot_bytes", title="size", kind=Kind.BYTES),
                Column(name="error"),
            ],
            rows=[_log_row(one) for one in shown],
            paging=paging,
            empty="No log has a producer snapshot.",
        ),
    )


def _log_row(one: LogSnapshots) -> Row:
    summary = one.summary
    return {
        "log_dir": one.key,
        "log": summary.name,
        "producers": summary.producers,
        "open": summary.open,
        "expired": summary.expired,
        "oldest": summary.oldest_ms,
        "newest": summary.newest_ms,
        "offset": summary.offset,
        "snapshots": summary.snapshots,
        "snapshot_bytes": summary.snapshot_bytes,
        "error": None if summary.error is None else str(summary.error),
    }


def _bars(known: Sequence[LogSnapshots]) -> Picture | None:
    largest = sorted((one for one in known if one.summary.producers), key=lambda one: -one.summary.producers)
    items = [
        {"log_dir": one.key, "log": one.summary.name, "producers": one.summary.producers}
        for one in largest[:_MOST_BARS]
    ]
    if not items:
        return None
    return Picture(
        items=items,
        draw=lambda: draw_bars(
            items,
            title="Producers by log",
            name="log",
            value="producers",
            text=lambda count: f"{count:,}",
            url=lambda item: urls.log_part_url(str(item["log_dir"]), str(item["log"]), "producers"),
        ),
    )


# --- producers ---


def _totals_section(request: PageRequest, report: ProducerReport) -> Section:
    keys: Mapping[str, Callable[[ProducerTotal], Any]] = {
        "producer_id": lambda one: one.producer_id,
        "logs": lambda one: one.logs,
        "open": lambda one: one.open,
        "epoch": lambda one: one.epoch,
        "last_timestamp": lambda one: one.last_ms,
    }
    shown, paging = request.query.paged("by_id", report.producers, keys=keys, sort="-logs")
    left_out = report.producer_count - len(report.producers)
    return Section(
        name="by_id",
        title="Producers by the number of logs",
        text=f"{left_out:,} producers in fewer logs are left out of this list of {MOST_PRODUCERS:,}."
        if left_out
        else "",
        table=Table(
            columns=[
                producer_column(),
                Column(name="logs", kind=Kind.NUMBER),
                Column(name="open", kind=Kind.NUMBER, help="Logs in which it has an open transaction"),
                Column(name="epoch", kind=Kind.NUMBER, help="The highest one"),
                Column(name="last_timestamp", kind=Kind.TIME),
            ],
            rows=[
                {
                    "producer_id": one.producer_id,
                    "logs": one.logs,
                    "open": one.open,
                    "epoch": one.epoch,
                    "last_timestamp": one.last_ms,
                }
                for one in shown
            ],
            paging=paging,
            empty="No snapshot has a producer.",
        ),
    )


def _found_section(request: PageRequest, report: ProducerReport, producer_id: int) -> Section:
    found = find_producer(request, producer_id).value
    keys: Mapping[str, Callable[[ProducerInLog], Any]] = {
        "log": lambda one: one.log,
        "last_timestamp": lambda one: one.entry.last_timestamp,
    }
    shown, paging = request.query.paged("found", found, keys=keys)
    columns = producer_columns(lambda row, offset: urls.records_url(str(row["log_dir"]), str(row["log"]), start=offset))
    return Section(
        name="found",
        title=f"Logs that know producer {producer_id}",
        text="By their newest snapshots.",
        table=Table(
            columns=[
                Column(
                    name="log",
                    kind=Kind.CODE,
                    link=lambda row: urls.log_part_url(str(row["log_dir"]), str(row["log"]), "producers"),
                ),
                *columns[1:],
            ],
            rows=[
                {
                    "log_dir": one.key,
                    "log": one.log,
                    **producer_row(one.entry, report.expirations[one.key], request.now_ms),
                }
                for one in shown
            ],
            paging=paging,
            empty="No snapshot has this producer. It may have written only after the newest snapshot of its logs.",
        ),
    )
