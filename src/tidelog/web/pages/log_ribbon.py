"""The items of a log's picture, from its report: bounded in number, whatever the log's size. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.inspect.log.report import LogReport
from tidelog.inspect.record_rows import iso_time
from tidelog.inspect.retention import PartitionRetention
from tidelog.inspect.retention.segment_state import segment_states
from tidelog.inspect.retention.sentences import goes_text, why_text
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId
from tidelog.web.shown import size_text
from tidelog.web.svg.ribbon_items import (
    STYLES,
    EpochBand,
    LostTail,
    OffsetMark,
    Ribbon,
    SegmentRun,
    SnapshotTick,
    TransactionBar,
)
from tidelog.web.svg.runs import join_runs

MOST_SEGMENTS = 200
_MOST_LOST, _MOST_EPOCHS, _MOST_SNAPSHOTS, _MOST_TRANSACTIONS = 19, 40, 50, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RibbonLinks:
    """The URLs of the picture's items. ``segments`` takes the number of a segment in the log, and leads to its row."""

    segment: Callable[[int], str]
    segments: Callable[[int], str]
    transactions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A segment of the ribbon: it belongs to the log, or lies after the log end (``lost``)."""

    state: str
    base_offset: int
    end_offset: int
    start: int
    bytes: int
    index_entries: int | None
    time_index_entries: int | None
    has_page: bool = True


def make_ribbon(report: LogReport, retention: PartitionRetention, links: RibbonLinks) -> Ribbon:
    """Return the picture's items. ``retention`` is the report's, judged at the moment of the page."""
    pieces = _pieces(report, retention)
    return Ribbon(
        segments=_runs(pieces, retention, links),
        tails=_tails(report),
        epochs=_epochs(report),
        snapshots=_snapshots(report),
        transactions=_transactions(report, links),
        marks=offset_marks(report),
        index_interval_bytes=max(1, retention.settings.config.index_interval_bytes),
    )


def state_names(report: LogReport, retention: PartitionRetention) -> list[str]:
    """Return the state of each of the log's segments."""
    if not retention.outlooks:
        return ["unknown"] * len(report.segments)
    return [state.value for state in segment_states(retention)]


def _pieces(report: LogReport, retention: PartitionRetention) -> list[_Piece]:
    pieces = [
        _Piece(
            state=state,
            base_offset=placed.base_offset,
            end_offset=placed.end_offset,
            start=placed.start,
            bytes=placed.size,
            index_entries=entries.offset,
            time_index_entries=entries.time,
        )
        for placed, entries, state in zip(report.segments, report.entries, state_names(report, retention), strict=True)
    ]
    start = pieces[-1].start + pieces[-1].bytes if pieces else 0
    for segment in report.start.later:
        pieces.append(
            _Piece(
                state="lost",
                base_offset=segment.base_offset,
                end_offset=segment.base_offset,
                start=start,
                bytes=segment.size,
                index_entries=0,
                time_index_entries=0,
                has_page=False,
            )
        )
        start += segment.size
    return pieces


def _runs(pieces: Sequence[_Piece], retention: PartitionRetention, links: RibbonLinks) -> list[SegmentRun]:
    found = []
    for run in _joined(pieces):
        parts = [pieces[number] for number in run]
        states = {part.state for part in parts}
        first, size = parts[0], sum(part.bytes for part in parts)
        state = first.state if len(states) == 1 else "mixed"
        outlook = retention.outlooks[run.start] if run.start < len(retention.outlooks) else None
        made = SegmentRun(
            state=state,
            base_offset=first.base_offset,
            end_offset=parts[-1].end_offset,
            segments=len(parts),
            start=first.start,
            bytes=size,
            index_entries=_total([part.index_entries for part in parts]),
            time_index_entries=_total([part.time_index_entries for part in parts]),
            trigger=None if outlook is None else outlook.trigger.value,
            goes_at_ms=None if outlook is None else outlook.goes_at_ms,
            after_bytes=None if outlook is None else outlook.after_bytes,
            tip=_tip(parts, size, state, retention, run.start),
            url=_url(first, run, links),
        )
        found.append(made)
    return found


def _joined(pieces: Sequence[_Piece]) -> list[range]:
    """Return at most MOST_SEGMENTS runs. The last segment of the log is always alone."""
    states = [piece.state for piece in pieces]
    if len(states) <= MOST_SEGMENTS:
        return join_runs(states, MOST_SEGMENTS)
    last = max(number for number, piece in enumerate(pieces) if piece.has_page)
    before = join_runs(states[:last], MOST_SEGMENTS - 1 - _MOST_LOST)
    after = [range(run.start + last + 1, run.stop + last + 1) for run in join_runs(states[last + 1 :], _MOST_LOST)]
    return [*before, range(last, last + 1), *after]


def _url(first: _Piece, run: range, links: RibbonLinks) -> str | None:
    if len(run) > 1:
        return links.segments(run.start)
    return links.segment(first.base_offset) if first.has_page else None


def _total(entries: Sequence[int | None]) -> int | None:
    known = [count for count in entries if count is not None]
    return sum(known) if len(known) == len(entries) else None


def _tip(parts: Sequence[_Piece], size: int, state: str, retention: PartitionRetention, number: int) -> str:
    first, last = parts[0], parts[-1]
    meaning = STYLES[state].meaning
    if len(parts) > 1:
        return (
            f"{len(parts):,} segments from {first.base_offset:,} to {last.base_offset:,}, {size_text(size)}; {meaning}"
        )
    text = f"Segment {first.base_offset:,}, {size_text(size)}, {_entries_text(first)}; {meaning}"
    if first.has_page and number < len(retention.outlooks):
        outlook = retention.outlooks[number]
        text += f". It goes: {goes_text(retention, outlook)}. Why: {why_text(retention, outlook)}"
    return text


def _entries_text(piece: _Piece) -> str:
    known = ((piece.index_entries, "index"), (piece.time_index_entries, "time index"))
    return " and ".join(f"no {name}" if count is None else f"{count:,} {name} entries" for count, name in known)


def _tails(report: LogReport) -> list[LostTail]:
    tail = report.state.invalid_tail
    if tail is None or not report.segments or report.start.lost is None:
        return []
    return [LostTail(offset=report.log_end, start=report.segments[-1].end, bytes=tail.length, reason=tail.reason)]


def _epochs(report: LogReport) -> list[EpochBand]:
    """Return the epochs of the log. The checkpoint of a log after an unclean shutdown may name later offsets."""
    known = [entry for entry in report.epochs if entry.start_offset <= report.log_end]
    bands = []
    for run in join_runs(list(range(len(known))), _MOST_EPOCHS):
        first, last = known[run.start], known[run.stop - 1]
        end_offset = known[run.stop].start_offset if run.stop < len(known) else report.log_end
        start, end = report.positions.of(first.start_offset), report.positions.of(end_offset)
        bands.append(
            EpochBand(
                epoch=first.epoch,
                epochs=len(run),
                start_offset=first.start_offset,
                end_offset=max(end_offset, last.start_offset),
                start=start,
                bytes=max(0, end - start),
            )
        )
    return bands


def _snapshots(report: LogReport) -> list[SnapshotTick]:
    metadata = [found for name in report.state.listing.others if (found := SnapshotId.parse(name)) is not None]
    named = [("producer", offset) for offset in report.state.listing.snapshots]
    named += [("metadata", found.offset) for found in metadata]
    named.sort(key=lambda one: (one[1], one[0]))
    ticks = []
    for run in join_runs([of for of, _ in named], _MOST_SNAPSHOTS):
        of, offset = named[run.start]
        ticks.append(SnapshotTick(of=of, offset=offset, snapshots=len(run), place=report.positions.of(offset)))
    return ticks


def _transactions(report: LogReport, links: RibbonLinks) -> list[TransactionBar]:
    found = report.transactions.open
    end = report.positions.of(report.log_end)
    shown = list(found) if len(found) <= _MOST_TRANSACTIONS else list(found[: _MOST_TRANSACTIONS - 1])
    groups = [[one] for one in shown] + ([list(found[len(shown) :])] if len(found) > len(shown) else [])
    bars = []
    for group in groups:
        first = group[0]
        start = report.positions.of(first.start_offset)
        since = "an unknown time" if first.start_timestamp is None else iso_time(first.start_timestamp)
        bars.append(
            TransactionBar(
                producer_id=first.producer_id,
                transactions=len(group),
                start_offset=first.start_offset,
                end_offset=report.log_end,
                start_timestamp=first.start_timestamp,
                start=start,
                bytes=end - start,
                tip=f"{len(group):,} open transactions, the first one of producer {first.producer_id} since {since}"
                if len(group) > 1
                else f"Open transaction of producer {first.producer_id} since {since}, {first.records:,} records",
                url=links.transactions,
            )
        )
    return bars


def offset_marks(report: LogReport) -> list[OffsetMark]:
    """Return the offsets that matter, with all names of one offset together."""
    named: dict[int, list[str]] = {}
    for name, offset in mark_offsets(report).items():
        if offset is not None:
            named.setdefault(offset, []).append(name)
    return [
        OffsetMark(names=tuple(names), offset=offset, place=report.positions.of(offset))
        for offset, names in sorted(named.items())
    ]


def mark_offsets(report: LogReport) -> Mapping[str, int | None]:
    """Return the offsets by name; None if one is not known."""
    return {
        "log start": report.state.log_start,
        "recovery point": report.recovery_point,
        "last stable offset": report.transactions.last_stable,
        "high watermark": report.high_watermark,
        "log end": report.log_end,
    }
