"""The page of one log's transactions: a picture over offsets, the open ones, and all that touch the shown part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.inspect.batch_window import BatchWindow
from tidelog.inspect.transaction_rows import endings, transaction_row
from tidelog.inspect.transaction_spans import SpanState, TransactionSpan, spans_of
from tidelog.inspect.transaction_survey import JudgedTransaction, judge_transactions, read_coordinator_logs
from tidelog.inspect.transactions import partition_transactions
from tidelog.model import TidelogError
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.transaction_scan import AbortedRanges
from tidelog.web import urls
from tidelog.web.jobs import JobProgress
from tidelog.web.page import Column, Fact, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.row_links import producer_column
from tidelog.web.reports.group_rows import shortened
from tidelog.web.reports.log_reports import log_report, log_trail, window_links, window_notes, window_of
from tidelog.web.request import PageRequest
from tidelog.web.svg.lane_runs import MOST_LANES, runs_of
from tidelog.web.svg.transactions import draw_transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class _LogTransactions:
    """``error`` is the reason if the open transactions' sizes are not known."""

    judged: Sequence[JudgedTransaction]
    open: dict[int, int]
    """The first offset of each open transaction by producer id."""
    aborted: AbortedRanges
    last_stable: int
    high_watermark: int
    log_start: int
    log_end: int
    error: TidelogError | None = None


def log_transactions_page(request: PageRequest) -> Page:
    """Return the page of one log's transactions."""
    partition = request.partition
    found = log_report(
        request, "transactions", lambda view, progress: _read(request, view, progress), title="finding the transactions"
    )
    state, window = found.value, window_of(request)
    spans = spans_of(window, state.aborted, state.open)
    counts = Counter(span.state for span in spans)
    held = next((one.transaction for one in state.judged), None)
    return Page(
        title=f"Transactions of {request.log_name}",
        trail=log_trail(request),
        facts=[
            Fact(name="log_start", value=state.log_start, kind=Kind.NUMBER),
            Fact(name="last_stable", title="last stable offset", value=state.last_stable, kind=Kind.NUMBER),
            Fact(name="high_watermark", value=state.high_watermark, kind=Kind.NUMBER),
            Fact(name="log_end", value=state.log_end, kind=Kind.NUMBER),
            Fact(name="open", value=len(state.open), kind=Kind.NUMBER),
            Fact(name="aborted", value=len(state.aborted), kind=Kind.NUMBER, help="In the complete log"),
            Fact(
                name="held_back_records",
                title="records behind the stable offset",
                value=0 if not state.open else None if held is None else held.held_back_records,
                kind=Kind.NUMBER,
            ),
            Fact(
                name="held_back_bytes",
                title="bytes behind the stable offset",
                value=0 if not state.open else None if held is None else held.held_back_bytes,
                kind=Kind.BYTES,
            ),
        ],
        notes=[
            *([] if state.error is None else [f"Error: {state.error}."]),
            *(sentence for one in state.judged if one.judgement.verdict.hangs for sentence in endings(one.transaction)),
            *window_notes(window),
        ],
        links=[
            Link("Producers", urls.log_part_url(request.log_dir.key, request.log_name, "producers")),
            Link("All transactions", urls.TRANSACTIONS),
        ],
        sections=[
            _picture_section(request, state, window, spans, counts),
            _open_section(request, state),
            _spans_section(request, spans),
        ],
        files={"log": str(request.log_dir.path / partition.directory_name)},
    )


def _read(request: PageRequest, view: LogView, progress: JobProgress) -> _LogTransactions:
    transactions = view.transactions(view.log_end)
    judged: Sequence[JudgedTransaction] = ()
    error: TidelogError | None = None
    try:
        open_ = partition_transactions(view, request.partition, progress.advance)
        if open_:
            paths = [one.path for one in request.sources.log_dirs]
            logs = read_coordinator_logs(BY_PATH, paths, advance=progress.advance)
            judged = judge_transactions(BY_PATH, logs, open_, now_ms=request.now_ms).transactions
    except TidelogError as found:
        error = found
    progress.advance(0)  # a cancelled search must not become a report
    return _LogTransactions(
        judged=judged,
        open=dict(transactions.scan.open),
        aborted=transactions.aborted,
        last_stable=view.last_stable_offset(Until.LOG_END),
        high_watermark=view.end_offset(Until.HIGH_WATERMARK),
        log_start=view.log_start,
        log_end=view.log_end,
        error=error,
    )


def open_row(judged: JudgedTransaction, key: str | None, now_ms: int) -> dict[str, Any]:
    """Return the row of an open transaction in the log directory with this key."""
    row = transaction_row(judged, now_ms)
    known = judged.judgement.known
    del row["error"]
    return row | {
        "transactional_id": None if known is None else shortened(known.name),
        "why": f"{judged.judgement.verdict}: {judged.judgement.reason}",
        "log_dir": key,
        "log": judged.transaction.partition.directory_name,
    }


def open_columns(*, with_log: bool = True) -> list[Column]:
    """Return the columns of open transactions. ``with_log`` adds the log of each."""
    columns = [
        Column(
            name="log",
            kind=Kind.CODE,
            link=lambda row: (
                None
                if row["log_dir"] is None
                else urls.log_part_url(str(row["log_dir"]), str(row["log"]), "transactions")
            ),
        ),
        producer_column(),
        Column(name="transactional_id", kind=Kind.CODE, link=_id_link),
        Column(name="why", title="verdict"),
        Column(name="start_offset", title="first offset", kind=Kind.NUMBER, link=_start_link),
        Column(name="start_timestamp", title="since", kind=Kind.TIME),
        Column(name="timeout_ms", title="timeout", kind=Kind.DURATION, help="transaction.timeout.ms of the producer"),
        Column(name="records", title="own records", kind=Kind.NUMBER),
        Column(name="held_back_records", title="records behind it", kind=Kind.NUMBER),
        Column(name="held_back_bytes", title="bytes behind it", kind=Kind.BYTES),
    ]
    return columns if with_log else columns[1:]


def _id_link(row: Row) -> str | None:
    name = row["transactional_id"]
    return urls.with_query(urls.TRANSACTIONS, {"id": name}) if isinstance(name, str) and len(name) < 300 else None


def _start_link(row: Row) -> str | None:
    if row["log_dir"] is None:
        return None
    return urls.records_url(str(row["log_dir"]), str(row["log"]), start=row["start_offset"])


def _open_section(request: PageRequest, state: _LogTransactions) -> Section:
    rows = [open_row(one, request.log_dir.key, request.now_ms) for one in state.judged]
    shown, paging = request.query.paged("open", rows)
    return Section(
        name="open",
        title="Open transactions",
        text="Each one hides everything from its first offset on from read_committed consumers, and from the cleaner.",
        table=Table(
            columns=open_columns(with_log=False), rows=shown, paging=paging, empty="No transaction is open in this log."
        ),
    )


# --- the shown part ---


def _picture_section(
    request: PageRequest,
    state: _LogTransactions,
    window: BatchWindow,
    spans: Sequence[TransactionSpan],
    counts: Counter[SpanState],
) -> Section:
    named = ", ".join(f"{counts[one]:,} {one.value}" for one in SpanState if counts[one]) or "no transactions"
    held = (
        " Everything from the last stable offset on is shaded: this is what the open transactions hold back."
        if state.open
        else ""
    )
    return Section(
        name="transactions_by_offset",
        title=f"Offsets {window.start:,} to {window.end:,}",
        text=(
            f"{len(window.table):,} batches with {named}. A bar reaches from the first offset of a transaction to its"
            f" marker.{held}"
        ),
        picture=_picture(request, state, window, spans),
        links=window_links(request.query, window),
    )


def _picture(
    request: PageRequest, state: _LogTransactions, window: BatchWindow, spans: Sequence[TransactionSpan]
) -> Picture | None:
    if window.end <= window.start:
        return None
    by_producer: dict[int, list[TransactionSpan]] = {}
    for span in spans:
        by_producer.setdefault(span.producer_id, []).append(span)
    first = sorted(by_producer, key=lambda one: (one not in state.open, -len(by_producer[one])))
    lanes = [by_producer[one] for one in sorted(first[: MOST_LANES - 1])]
    labels = [f"producer {one}" for one in sorted(first[: MOST_LANES - 1])]
    rest = [span for one in first[MOST_LANES - 1 :] for span in by_producer[one]]
    if rest:
        lanes.append(sorted(rest, key=lambda span: span.first_offset))
        labels.append(f"{len(first) - MOST_LANES + 1:,} other producers")
    runs = runs_of(lanes, window.start, window.end, lambda span: span.first_offset)
    items = [_item(number, run) for number, lane in enumerate(runs) for run in lane]
    marks = [
        {"mark": name, "offset": offset}
        for name, offset in (("last stable offset", state.last_stable), ("high watermark", state.high_watermark))
        if window.start <= offset <= window.end and (name != "last stable offset" or state.open)
    ]
    return Picture(
        items=[*items, *marks],
        draw=lambda: draw_transactions(
            items,
            marks,
            lanes=labels,
            start=window.start,
            end=window.end,
            held_from=state.last_stable if state.open else None,
            url=lambda item: urls.records_url(
                request.log_dir.key, request.log_name, start=max(int(str(item["first_offset"])), state.log_start)
            ),
        ),
    )


def _item(lane: int, run: Sequence[TransactionSpan]) -> dict[str, Any]:
    counts = Counter(span.state for span in run)
    producers = {span.producer_id for span in run}
    return {
        "lane": lane,
        "producer_id": run[0].producer_id if len(producers) == 1 else None,
        "first_offset": min(span.first_offset for span in run),
        "last_offset": max(span.last_offset for span in run),
        **{state.value: counts[state] for state in SpanState},
    }


def _spans_section(request: PageRequest, spans: Sequence[TransactionSpan]) -> Section:
    shown, paging = request.query.paged(
        "spans",
        spans,
        keys={
            "producer_id": lambda one: one.producer_id,
            "state": lambda one: one.state.value,
            "first_offset": lambda one: one.first_offset,
            "last_offset": lambda one: one.last_offset,
        },
        sort="first_offset",
    )
    key, log = request.log_dir.key, request.log_name
    return Section(
        name="spans",
        title="Transactions of these offsets",
        text=(
            "Aborted transactions come from the transaction indexes and the newest batches. Committed ones are in no"
            " file, so only those with batches in the shown part are listed."
        ),
        table=Table(
            columns=[
                producer_column(),
                Column(name="state"),
                Column(
                    name="first_offset",
                    kind=Kind.NUMBER,
                    link=lambda row: urls.records_url(key, log, start=row["first_offset"]),
                ),
                Column(name="last_offset", kind=Kind.NUMBER, help="The marker's, unless the transaction is open"),
                Column(name="offsets", kind=Kind.NUMBER),
                Column(name="is_partial", title="partial", help="It may begin before, or end after the shown part"),
            ],
            rows=[
                {
                    "producer_id": span.producer_id,
                    "state": span.state.value,
                    "first_offset": span.first_offset,
                    "last_offset": span.last_offset,
                    "offsets": span.last_offset - span.first_offset + 1,
                    "is_partial": span.is_partial,
                }
                for span in shown
            ],
            paging=paging,
            empty="No transaction touches these offsets.",
        ),
    )
