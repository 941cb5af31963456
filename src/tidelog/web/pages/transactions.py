"""The page of all open transactions, and of the transactional ids by their coordinators' records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.inspect.durations import parse_duration
from tidelog.inspect.transaction_rows import endings
from tidelog.inspect.transaction_survey import JudgedTransaction
from tidelog.model import TopicPartition
from tidelog.record.internal_records.transaction_record import STATES_BY_LABEL
from tidelog.web import urls
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.log_transactions import log_transactions_page, open_columns, open_row
from tidelog.web.pages.row_links import log_column, producer_column, undecoded_column
from tidelog.web.reports.group_rows import partitions_text, shortened
from tidelog.web.reports.transaction_report import (
    OUTCOMES,
    CoordinatorPart,
    KnownId,
    TransactionReport,
    key_of,
    report_of,
)
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.svg.bars import draw_bars

__all__ = ["log_transactions_page", "transactions_page"]

_DEFAULT_LIMIT = "15m"
"""Kafka's default of ``transaction.max.timeout.ms``."""
_MOST_BARS = 20


def transactions_page(request: PageRequest) -> Page:
    """Return the page of all transactions."""
    limit = request.query.text("limit", _DEFAULT_LIMIT)
    limit_ms = parse_duration(limit)
    name = request.query.text("id")
    state = request.query.choice("state", ("", *STATES_BY_LABEL), "")
    finished = report_of(request, limit_ms)
    report = finished.value
    hanging = [one for one in report.transactions if one.judgement.verdict.hangs]
    sections = [
        _open_section(request, report),
        _ids_section(request, report, name, state),
        _ended_section(report),
        _coordinators_section(report),
        *([_unread_section(request, report)] if report.unread else []),
    ]
    return Page(
        title="Transactions",
        trail=[Link("Cluster", urls.CLUSTER)],
        form=[
            FormField(name="limit", title="transaction.max.timeout.ms", value=limit, hint="such as 15m"),
            FormField(name="id", title="Transactional id", value=name, hint="part of an id"),
            FormField(
                name="state",
                title="State",
                value=state,
                choices=[
                    Choice(value="", title="all states"),
                    *(Choice(value=one, title=one) for one in STATES_BY_LABEL),
                ],
            ),
        ],
        facts=[
            Fact(name="open", value=len(report.transactions), kind=Kind.NUMBER),
            Fact(name="hanging", value=len(hanging), kind=Kind.NUMBER, help="Or suspected to hang"),
            Fact(name="transactional_ids", value=len(report.ids), kind=Kind.NUMBER),
            Fact(name="logs", value=report.logs, kind=Kind.NUMBER),
            Fact(name="as_of", value=finished.made_at_ms, kind=Kind.TIME),
        ],
        notes=[*report.notes(), *(sentence for one in hanging[:3] for sentence in endings(one.transaction))],
        links=[Link("Read again", urls.with_query(urls.TRANSACTIONS, {"newer": finished.made_at_ms}))],
        sections=sections,
    )


# --- open transactions ---


def _open_section(request: PageRequest, report: TransactionReport) -> Section:
    keys: Mapping[str, Callable[[JudgedTransaction], Any]] = {
        "topic": lambda one: one.transaction.partition,
        "start_timestamp": lambda one: one.transaction.start_timestamp,
        "held_back_records": lambda one: one.transaction.held_back_records,
        "held_back_bytes": lambda one: one.transaction.held_back_bytes,
        "transactional_id": lambda one: None if one.judgement.known is None else one.judgement.known.name,
        "verdict": lambda one: one.judgement.verdict.value,
    }
    shown, paging = request.query.paged("open", report.transactions, keys=keys, sort="-held_back_bytes")
    rows = [open_row(one, key_of(request.sources, one.transaction.directory), request.now_ms) for one in shown]
    return Section(
        name="open",
        title="Open transactions",
        text=(
            "An open transaction hides everything from its first offset on from read_committed consumers and from the"
            " cleaner, also the records of other producers. It hangs if its coordinator has no transaction with the"
            " partition, because nothing else writes its marker."
        ),
        picture=_held_back(request, report),
        table=Table(columns=open_columns(), rows=rows, paging=paging, empty="No transaction is open."),
    )


def _held_back(request: PageRequest, report: TransactionReport) -> Picture | None:
    """Return bars of the bytes that each log's last stable offset holds back."""
    largest: dict[tuple[str, str], int] = {}
    for one in report.transactions:
        transaction = one.transaction
        where = (key_of(request.sources, transaction.directory) or "", transaction.partition.directory_name)
        largest[where] = max(largest.get(where, 0), transaction.held_back_bytes)
    top = sorted(largest.items(), key=lambda pair: -pair[1])[:_MOST_BARS]
    items = [{"log_dir": key, "log": log, "held_back_bytes": size} for (key, log), size in top]
    if not items:
        return None
    return Picture(
        items=items,
        draw=lambda: draw_bars(
            items,
            title="Bytes behind the last stable offset",
            name="log",
            value="held_back_bytes",
            text=size_text,
            url=lambda item: urls.log_part_url(str(item["log_dir"]), str(item["log"]), "transactions"),
        ),
    )


# --- transactional ids ---


def _ids_section(request: PageRequest, report: TransactionReport, name: str, state: str) -> Section:
    chosen, part = report.ids, name.lower()
    if name or state:
        chosen = [one for one in chosen if part in one.known.name.lower() and (not state or one.known.state == state)]
    keys: Mapping[str, Callable[[KnownId], Any]] = {
        "transactional_id": lambda one: one.known.name,
        "producer_id": lambda one: one.known.producer_id,
        "state": lambda one: one.known.state,
        "started": lambda one: one.known.start_timestamp,
        "updated": lambda one: one.known.last_update_timestamp,
    }
    shown, paging = request.query.paged("ids", chosen, keys=keys, sort="transactional_id")
    return Section(
        name="ids",
        title="Transactional ids",
        text="The newest record of each transactional id in __transaction_state, which its coordinator wrote.",
        table=Table(
            columns=[
                Column(name="transactional_id", kind=Kind.CODE),
                producer_column(),
                Column(name="producer_epoch", title="epoch", kind=Kind.NUMBER),
                Column(name="state"),
                Column(name="awaits", help="The partitions of the transaction that have no marker yet"),
                Column(name="started", kind=Kind.TIME, help="The start of the ongoing or last transaction"),
                Column(name="updated", kind=Kind.TIME),
                Column(name="timeout_ms", title="timeout", kind=Kind.DURATION),
                _record_column(),
            ],
            rows=[_id_row(one) for one in shown],
            paging=paging,
            empty="No transactional id matches." if report.ids else "There are no transactional ids here.",
        ),
    )


def _id_row(one: KnownId) -> dict[str, Any]:
    known = one.known
    return {
        "transactional_id": shortened(known.name),
        "producer_id": known.producer_id,
        "producer_epoch": known.producer_epoch,
        "state": known.state,
        "awaits": partitions_text(_by_topic(known.partitions)) or None,
        "started": known.start_timestamp,
        "updated": known.last_update_timestamp,
        "timeout_ms": known.timeout_ms,
        "log_dir": one.key,
        "log": known.source.directory_name,
        "record_offset": known.source_offset,
    }


def _by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for partition in partitions:
        found.setdefault(partition.topic, []).append(partition.partition)
    return found


def _ended_section(report: TransactionReport) -> Section:
    return Section(
        name="ended",
        title="Newest ended transactions",
        text="The last transaction of each transactional id, if it has ended.",
        table=Table(
            columns=[
                Column(name="transactional_id", kind=Kind.CODE),
                producer_column(),
                Column(name="outcome"),
                Column(name="started", kind=Kind.TIME),
                Column(name="ended", kind=Kind.TIME),
                Column(name="took_ms", title="took", kind=Kind.DURATION),
                _record_column(),
            ],
            rows=[_ended_row(one) for one in report.ended],
            empty="No transactional id has an ended transaction.",
        ),
        is_folded=True,
    )


def _ended_row(one: KnownId) -> Row:
    known, row = one.known, _id_row(one)
    times = (known.start_timestamp, known.last_update_timestamp)
    return {
        **{name: row[name] for name in ("transactional_id", "producer_id", "log_dir", "log", "record_offset")},
        "outcome": OUTCOMES[known.state],
        "started": known.start_timestamp,
        "ended": known.last_update_timestamp,
        "took_ms": None if times[0] is None or times[1] is None else times[1] - times[0],
    }


def _record_column() -> Column:
    return Column(
        name="record_offset",
        title="record",
        kind=Kind.NUMBER,
        link=lambda row: urls.records_url(str(row["log_dir"]), str(row["log"]), start=row["record_offset"]),
        help="The record of __transaction_state",
    )


# --- coordinators and errors ---


def _coordinators_section(report: TransactionReport) -> Section:
    states = list(STATES_BY_LABEL)[:6]
    rows = [_coordinator_row(part, states) for part in report.coordinators]
    return Section(
        name="coordinators",
        title="Partitions of __transaction_state",
        text="A transactional id belongs to one partition, which the hash of its name selects. Its leader coordinates.",
        is_folded=not any(row["undecoded"] or row["error"] for row in rows),
        table=Table(
            columns=[
                log_column(),
                Column(name="ids", kind=Kind.NUMBER),
                *(Column(name=state, title=state, kind=Kind.NUMBER) for state in states),
                undecoded_column(),
                Column(name="error"),
            ],
            rows=rows,
            empty="No partition of __transaction_state is here.",
        ),
    )


def _coordinator_row(part: CoordinatorPart, states: Sequence[str]) -> Row:
    return {
        "log_dir": part.key,
        "log": part.partition.directory_name,
        "ids": part.by_state.total(),
        **{state: part.by_state[state] for state in states},
        "undecoded": part.undecoded,
        "first_undecoded": part.first_undecoded,
        "error": part.error,
    }


def _unread_section(request: PageRequest, report: TransactionReport) -> Section:
    shown, paging = request.query.paged("unread", report.unread)
    rows = [
        {
            "log_dir": key_of(request.sources, part.directory),
            "log": part.partition.directory_name,
            "error": str(part.error),
        }
        for part in shown
    ]
    return Section(
        name="unread",
        title="Logs that cannot be read",
        text="Their open transactions are not known.",
        table=Table(
            columns=[log_column(), Column(name="error")],
            rows=rows,
            paging=paging,
        ),
    )
