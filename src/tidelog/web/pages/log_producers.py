"""The page of one log's producers: their state at the log end, and their batches as lanes over offsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.inspect.batch_window import BatchWindow
from tidelog.inspect.producer_lanes import NO_PRODUCER, Block, BlockKind, Lane, lanes_of
from tidelog.inspect.producers import log_producers
from tidelog.storage.producer.entry import ProducerEntry
from tidelog.web import urls
from tidelog.web.page import Column, Fact, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.row_links import producer_column
from tidelog.web.reports.log_reports import log_report, log_trail, window_links, window_notes, window_of
from tidelog.web.reports.producer_report import EXPIRATION_KEY, Expiration, expiration_of
from tidelog.web.request import PageRequest
from tidelog.web.svg.lane_runs import MOST_LANES, runs_of
from tidelog.web.svg.lanes import draw_lanes

_OWN_LANES = MOST_LANES - 1
"""The other producers share the last lane."""


def log_producers_page(request: PageRequest) -> Page:
    """Return the page of one log's producers."""
    name = request.log_name
    found = log_report(
        request,
        "producers",
        lambda view, progress: (log_producers(view, progress.advance), expiration_of(request.sources, request.log_dir)),
        title="reading the producers",
    )
    state, expiration = found.value
    window = window_of(request)
    error = [] if state.error is None else [f"Error: {state.error}. The producers are those of the newest snapshot."]
    return Page(
        title=f"Producers of {name}",
        trail=log_trail(request),
        facts=[
            Fact(name="producers", value=len(state.entries), kind=Kind.NUMBER),
            Fact(
                name="open",
                title="with an open transaction",
                value=sum(entry.transaction_first_offset is not None for entry in state.entries),
                kind=Kind.NUMBER,
            ),
            Fact(
                name="expired",
                value=sum(_is_expired(entry, expiration, request.now_ms) for entry in state.entries),
                kind=Kind.NUMBER,
                help="A broker forgets them at its next check, and when it loads the log",
            ),
            Fact(name="offset", title="as of offset", value=state.offset, kind=Kind.NUMBER),
            Fact(name="snapshot_offset", title="newest snapshot", value=state.snapshot_offset, kind=Kind.NUMBER),
            expiration_fact(expiration),
        ],
        notes=[*error, *window_notes(window)],
        links=[
            Link("Transactions", urls.log_part_url(request.log_dir.key, name, "transactions")),
            Link("All producers", urls.PRODUCERS),
        ],
        sections=[
            *_lanes_sections(request, window),
            _producers_section(request, state.entries, expiration),
        ],
    )


def expiration_fact(expiration: Expiration) -> Fact:
    return Fact(
        name="producer_id_expiration_ms",
        title=f"{EXPIRATION_KEY} ({expiration.origin})",
        value=expiration.ms,
        kind=Kind.DURATION,
        help="A producer is forgotten after this time without a batch, unless it has an open transaction",
    )


def _is_expired(entry: ProducerEntry, expiration: Expiration, now_ms: int) -> bool:
    return entry.transaction_first_offset is None and now_ms - entry.last_timestamp >= expiration.ms


# --- the state ---


def _producers_section(request: PageRequest, entries: Sequence[ProducerEntry], expiration: Expiration) -> Section:
    keys: Mapping[str, Callable[[ProducerEntry], Any]] = {
        "producer_id": lambda one: one.producer_id,
        "producer_epoch": lambda one: one.producer_epoch,
        "last_sequence": lambda one: one.last_sequence,
        "last_offset": lambda one: one.last_data_offset,
        "last_timestamp": lambda one: one.last_timestamp,
        "transaction_first_offset": lambda one: one.transaction_first_offset,
    }
    shown, paging = request.query.paged("producers", entries, keys=keys, sort="-last_timestamp")
    key, name = request.log_dir.key, request.log_name
    return Section(
        name="producers",
        title="Producers",
        text=(
            "The state by which a broker recognizes duplicates and gaps: the newest snapshot, and the batches after it."
            " The last offset and sequence are missing if only a marker is left of the epoch."
        ),
        table=Table(
            columns=[
                *producer_columns(lambda row, offset: urls.records_url(key, name, start=offset)),
            ],
            rows=[producer_row(one, expiration, request.now_ms) for one in shown],
            paging=paging,
            empty="The log knows no producer with an id.",
        ),
    )


def producer_columns(records: Callable[[Row, object], str]) -> list[Column]:
    """Return the columns of a producer's state in a log. ``records`` returns the URL of an offset's record."""

    def link(name: str) -> Callable[[Row], str | None]:
        return lambda row: None if row[name] is None else records(row, row[name])

    return [
        producer_column(),
        Column(name="producer_epoch", title="epoch", kind=Kind.NUMBER),
        Column(name="last_sequence", kind=Kind.NUMBER),
        Column(name="last_offset", kind=Kind.NUMBER, link=link("last_offset")),
        Column(name="last_timestamp", kind=Kind.TIME),
        Column(
            name="coordinator_epoch",
            kind=Kind.NUMBER,
            help="The epoch of the coordinator that wrote the last marker",
        ),
        Column(
            name="transaction_first_offset",
            title="open since offset",
            kind=Kind.NUMBER,
            link=link("transaction_first_offset"),
        ),
        Column(name="expires", kind=Kind.TIME, help="Never while a transaction is open"),
        Column(name="is_expired", title="expired"),
    ]


def producer_row(entry: ProducerEntry, expiration: Expiration, now_ms: int) -> dict[str, Any]:
    is_open = entry.transaction_first_offset is not None
    has_data = bool(entry.batches)
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "last_sequence": entry.last_sequence if has_data else None,
        "last_offset": entry.last_data_offset if has_data else None,
        "last_timestamp": entry.last_timestamp if entry.last_timestamp >= 0 else None,
        "coordinator_epoch": entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None,
        "transaction_first_offset": entry.transaction_first_offset,
        "expires": None if is_open else entry.last_timestamp + expiration.ms,
        "is_expired": _is_expired(entry, expiration, now_ms),
    }


# --- the lanes ---


def _lanes_sections(request: PageRequest, window: BatchWindow) -> list[Section]:
    lanes = lanes_of(window)
    gaps, bumps = sum(lane.gaps for lane in lanes), sum(lane.epoch_bumps for lane in lanes)
    items, labels = _items(window, lanes)
    key, name = request.log_dir.key, request.log_name
    sections = [
        Section(
            name="lanes",
            title=f"Batches of offsets {window.start:,} to {window.end:,}",
            text=(
                f"{len(window.table):,} batches in a lane for each producer; {gaps:,} gaps in their sequences, and"
                f" {bumps:,} epoch bumps. The cleaner makes gaps in compacted topics. Elsewhere a gap means that the"
                " broker had forgotten the producer. The epoch grows when a producer is initialized or fenced, and with"
                " transaction version 2 after every transaction."
            ),
            picture=None
            if not items
            else Picture(
                items=items,
                draw=lambda: draw_lanes(
                    items,
                    lanes=labels,
                    start=window.start,
                    end=window.end,
                    url=lambda item: _item_url(request, window, item),
                ),
            ),
            links=window_links(request.query, window),
            is_folded=True,
            table=Table(
                columns=[
                    Column(name="producer_id", title="producer", kind=Kind.CODE),
                    Column(
                        name="first_offset",
                        kind=Kind.NUMBER,
                        link=lambda row: urls.records_url(
                            key, name, start=max(int(str(row["first_offset"])), window.log_start)
                        ),
                    ),
                    Column(name="last_offset", kind=Kind.NUMBER),
                    Column(name="epoch", kind=Kind.NUMBER),
                    Column(name="first_sequence", kind=Kind.NUMBER),
                    Column(name="last_sequence", kind=Kind.NUMBER),
                    *(
                        Column(name=one, kind=Kind.NUMBER)
                        for one in ("batches", "data", "transactional", "commits", "aborts", "gaps", "epoch_bumps")
                    ),
                    Column(name="bytes", kind=Kind.BYTES),
                ],
                rows=items,
                empty="No batch lies at these offsets.",
            ),
        )
    ]
    events = [(lane, block) for lane in lanes for block in lane.blocks if _is_event(block)]
    if events:
        sections.append(_events_section(request, events))
    return sections


def _is_event(block: Block) -> bool:
    return block.expected_sequence is not None or block.previous_epoch is not None


def _events_section(request: PageRequest, events: Sequence[tuple[Lane, Block]]) -> Section:
    """Return the gaps and epoch bumps of the shown part, by offset."""
    ordered = sorted(events, key=lambda pair: pair[1].first_offset)
    shown, paging = request.query.paged("events", ordered)
    key, name = request.log_dir.key, request.log_name
    return Section(
        name="events",
        title="Gaps and epoch bumps",
        table=Table(
            columns=[
                Column(
                    name="offset",
                    kind=Kind.NUMBER,
                    link=lambda row: urls.batch_url(key, name, int(str(row["segment"])), int(str(row["position"]))),
                    help="Links to the batch",
                ),
                Column(name="producer_id", title="producer", kind=Kind.CODE),
                Column(name="batch"),
                Column(name="epoch", kind=Kind.NUMBER),
                Column(name="previous_epoch", kind=Kind.NUMBER),
                Column(name="first_sequence", kind=Kind.NUMBER),
                Column(name="expected_sequence", kind=Kind.NUMBER),
            ],
            rows=[
                {
                    "offset": block.first_offset,
                    "producer_id": lane.producer_id,
                    "batch": block.kind.value,
                    "epoch": block.epoch,
                    "previous_epoch": block.previous_epoch,
                    "first_sequence": block.first_sequence if block.first_sequence >= 0 else None,
                    "expected_sequence": block.expected_sequence,
                    "segment": block.segment,
                    "position": block.position,
                }
                for lane, block in shown
            ],
            paging=paging,
        ),
    )


def _items(window: BatchWindow, lanes: Sequence[Lane]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the items of the picture and the labels of its lanes: the busiest producers, and one lane for the rest."""
    busiest = sorted(lanes, key=lambda lane: -len(lane.blocks))
    shown, rest = sorted(busiest[:_OWN_LANES], key=lambda lane: lane.producer_id), busiest[_OWN_LANES:]
    blocks = [[(lane.producer_id, block) for block in lane.blocks] for lane in shown]
    labels = [_label(lane) for lane in shown]
    if rest:
        others = [(lane.producer_id, block) for lane in rest for block in lane.blocks]
        blocks.append(sorted(others, key=lambda pair: pair[1].first_offset))
        labels.append(f"{len(rest):,} other producers")
    # Markers have runs of their own, and come later in the picture, so that no block hides them.
    halves = [
        [pair for pair in lane if pair[1].kind.is_data is is_data] for is_data in (True, False) for lane in blocks
    ]
    runs = runs_of(halves, window.start, window.end, lambda pair: pair[1].first_offset) if blocks else []
    return [_item(number % len(blocks), run) for number, lane in enumerate(runs) for run in lane], labels


def _label(lane: Lane) -> str:
    return "no producer id" if lane.producer_id == NO_PRODUCER else f"producer {lane.producer_id}"


def _item(lane: int, run: Sequence[tuple[int, Block]]) -> dict[str, Any]:
    producers = {producer_id for producer_id, _ in run}
    blocks = [block for _, block in run]
    kinds = Counter(block.kind for block in blocks)
    numbered = [block for block in blocks if block.first_sequence >= 0]
    return {
        "lane": lane,
        "producer_id": run[0][0] if len(producers) == 1 else None,
        "first_offset": blocks[0].first_offset,
        "last_offset": blocks[-1].last_offset,
        "epoch": blocks[-1].epoch if blocks[-1].epoch >= 0 else None,
        "first_sequence": numbered[0].first_sequence if numbered and len(producers) == 1 else None,
        "last_sequence": numbered[-1].last_sequence if numbered and len(producers) == 1 else None,
        "batches": len(blocks),
        "data": kinds[BlockKind.DATA] + kinds[BlockKind.TRANSACTIONAL],
        "transactional": kinds[BlockKind.TRANSACTIONAL],
        "commits": kinds[BlockKind.COMMIT],
        "aborts": kinds[BlockKind.ABORT],
        "gaps": sum(block.expected_sequence is not None for block in blocks),
        "epoch_bumps": sum(block.previous_epoch is not None for block in blocks),
        "bytes": sum(block.size for block in blocks),
        "segment": blocks[0].segment,
        "position": blocks[0].position,
    }


def _item_url(request: PageRequest, window: BatchWindow, item: Row) -> str:
    """Return the URL of the batch, or of the first record of a run."""
    key, name = request.log_dir.key, request.log_name
    if item["batches"] == 1:
        return urls.batch_url(key, name, int(str(item["segment"])), int(str(item["position"])))
    return urls.records_url(key, name, start=max(int(str(item["first_offset"])), window.log_start))
