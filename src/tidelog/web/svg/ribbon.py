"""The picture of one partition's log: the segment ribbon, and under it on the same scale the log's other parts.

From top to bottom: flags with the offsets that matter, the segments, their base offsets, the density of their indexes,
leader epochs, snapshots, open transactions, and a legend. A line leads from each flag through all lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.inspect.record_rows import iso_time
from tidelog.web.shown import size_text
from tidelog.web.svg.byte_scale import ByteScale, PlacedRun
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.ribbon_items import STYLES, OffsetMark, Ribbon, SegmentRun, StateStyle, TransactionBar

WIDTH = 1000.0
_LEFT, _RIGHT = 132.0, 992.0
_FLAG, _SEGMENTS, _BASES, _GOES, _DENSITY, _BAND, _TICKS, _BAR, _LEGEND = 19, 40, 19, 22, 52, 22, 18, 28, 21
_GAP = 10
_CHARACTER = 6.9
_LETTER_WIDTH = 19
_LAST_DATE_MS = 253_402_300_800_000
_LEGEND_COLUMNS = (8.0, 336.0, 664.0)


def draw_ribbon(ribbon: Ribbon) -> str:
    """Return the SVG. There is at least one segment."""
    runs = [PlacedRun(run.base_offset, run.start, run.bytes) for run in ribbon.segments]
    scale = ByteScale(runs, _LEFT, _RIGHT)
    flags = _place_flags(ribbon.marks, scale)
    lanes = _Lanes.of(ribbon, rows=max((flag.row for flag in flags), default=-1) + 1)
    legend = _legend(ribbon)
    drawing = Drawing(
        WIDTH,
        lanes.end + _LEGEND * -(-len(legend) // len(_LEGEND_COLUMNS)) + 8,
        title="Segment ribbon",
        description="The segments of the log from left to right, as wide as their bytes, with the parts of the log"
        " below them on the same scale",
    )
    _draw_labels(drawing, ribbon, lanes)
    _draw_segments(drawing, ribbon, scale, lanes)
    _draw_base_offsets(drawing, ribbon, scale, lanes)
    _draw_deletions(drawing, ribbon, scale, lanes)
    _draw_epochs(drawing, ribbon, scale, lanes)
    _draw_snapshots(drawing, ribbon, scale, lanes)
    for flag in flags:
        drawing.line(flag.x, flag.row * _FLAG + 3, flag.x, lanes.bases, "ink")
        drawing.line(flag.x, lanes.density, flag.x, lanes.end - 4, "ink", dashed=True)
    _draw_transactions(drawing, ribbon, scale, lanes)
    _draw_flags(drawing, flags)
    for number, style in enumerate(legend):
        row, column = divmod(number, len(_LEGEND_COLUMNS))
        _draw_legend(drawing, style, _LEGEND_COLUMNS[column], lanes.end + row * _LEGEND)
    return drawing.svg()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """The top of each lane. ``end`` is the bottom of the last one."""

    segments: float
    bases: float
    goes: float
    density: float
    epochs: float
    snapshots: float
    transactions: float
    end: float

    @classmethod
    def of(cls, ribbon: Ribbon, rows: int) -> _Lanes:
        segments = rows * _FLAG + 6
        bases = segments + _SEGMENTS
        goes = bases + _BASES
        density = goes + _GOES
        epochs = density + _DENSITY + _GAP
        snapshots = epochs + (_BAND + _GAP if ribbon.epochs else 0)
        transactions = snapshots + (_TICKS + _GAP if ribbon.snapshots else 0)
        end = transactions + _BAR * len(ribbon.transactions) + _GAP
        return cls(
            segments=segments,
            bases=bases,
            goes=goes,
            density=density,
            epochs=epochs,
            snapshots=snapshots,
            transactions=transactions,
            end=end,
        )


def _draw_labels(drawing: Drawing, ribbon: Ribbon, lanes: _Lanes) -> None:
    def label(y: float, text: str) -> None:
        drawing.text(_LEFT - 12, y, text, anchor="end", style="faint")

    label(lanes.segments + 25, "segments")
    label(lanes.bases + 14, "base offset")
    label(lanes.goes + 14, "is deleted")
    label(lanes.density + 20, ".index entries")
    label(lanes.density + 44, ".timeindex entries")
    if ribbon.epochs:
        label(lanes.epochs + 16, "leader epochs")
    if ribbon.snapshots:
        label(lanes.snapshots + 13, "snapshots")
    if ribbon.transactions:
        label(lanes.transactions + 20, "open transactions")


def _draw_segments(drawing: Drawing, ribbon: Ribbon, scale: ByteScale, lanes: _Lanes) -> None:
    middle = lanes.density + _DENSITY / 2
    for number, run in enumerate(ribbon.segments):
        left, right = scale.run(number)
        width = max(right - left - (1 if right - left > 3 else 0), 0.5)
        style, valid = STYLES[run.state], _valid_width(ribbon, scale, run, left, width)
        with drawing.mark(run.item(), tip=run.tip, url=run.url):
            drawing.rect(left, lanes.segments, width, _SEGMENTS, style.fill, pattern=style.pattern)
            if valid >= _LETTER_WIDTH:
                _draw_letter(drawing, left + valid / 2, lanes.segments + 20, style.letter)
            _draw_density(drawing, run, left, valid, middle, ribbon.index_interval_bytes)
    drawing.line(_LEFT, middle, _RIGHT, middle)
    style = STYLES["lost"]
    for tail in ribbon.tails:
        left, right = scale.at(tail.offset, tail.start), scale.at(tail.offset, tail.start + tail.bytes)
        width = max(right - left - 1, 3)
        with drawing.mark(tail.item(), tip=f"{size_text(tail.bytes)} that the next start truncates: {tail.reason}"):
            drawing.rect(left, lanes.segments, width, _SEGMENTS, style.fill, pattern=style.pattern)
            if width >= _LETTER_WIDTH:
                _draw_letter(drawing, left + width / 2, lanes.segments + 20, style.letter)


def _valid_width(ribbon: Ribbon, scale: ByteScale, run: SegmentRun, left: float, width: float) -> float:
    """Return the width of a run without the bytes that a start truncates."""
    inside = [tail for tail in ribbon.tails if run.start <= tail.start < run.start + run.bytes]
    return scale.at(inside[0].offset, inside[0].start) - left if inside else width


def _draw_base_offsets(drawing: Drawing, ribbon: Ribbon, scale: ByteScale, lanes: _Lanes) -> None:
    texts = [(scale.run(number)[0], f"{run.base_offset:,}") for number, run in enumerate(ribbon.segments)]
    _draw_axis(drawing, texts, lanes.bases)


def _draw_deletions(drawing: Drawing, ribbon: Ribbon, scale: ByteScale, lanes: _Lanes) -> None:
    """Write the deletion of segments under them, once for neighbours with the same text."""
    texts: list[tuple[float, str]] = []
    for number, run in enumerate(ribbon.segments):
        text = _goes_text(run)
        if not texts or texts[-1][1] != text:
            texts.append((scale.run(number)[0], text))
    _draw_axis(drawing, texts, lanes.goes)


def _draw_axis(drawing: Drawing, texts: Sequence[tuple[float, str]], top: float) -> None:
    """Draw a tick and a text at each coordinate, as far as there is room. A text holds up to the next tick."""
    labelled_to = 0.0
    for x, text in texts:
        width = len(text) * _CHARACTER
        if x >= labelled_to and x + width < WIDTH:
            drawing.line(x, top, x, top + 5)
            drawing.text(x + 3, top + 14, text, style="faint")
            labelled_to = x + width + 12


def _goes_text(run: SegmentRun) -> str:
    """Return the deletion of a segment in a word or two, or of the first segment of a run."""
    if run.state == "lost":
        return "next start"
    match run.trigger:
        case "next_check":
            return "next check"
        case "never":
            return "never"
        case "high_watermark":
            return "with the high watermark"
        case "time" | "time_or_size" if run.goes_at_ms is not None:
            return iso_time(run.goes_at_ms)[:10] if run.goes_at_ms < _LAST_DATE_MS else "after the year 9999"
        case "size" if run.after_bytes is not None:
            return f"after {size_text(run.after_bytes)}"
    return "not known"


def _draw_letter(drawing: Drawing, x: float, y: float, letter: str) -> None:
    width = 8 + 7 * len(letter)
    drawing.rect(x - width / 2, y - 8, width, 16, "ground")
    drawing.text(x, y + 4, letter, anchor="middle")


def _draw_density(drawing: Drawing, run: SegmentRun, left: float, width: float, middle: float, interval: int) -> None:
    """Draw the entries of the offset index upwards, and the entries of the time index downwards."""
    most = _DENSITY / 2 - 4
    for entries, fill, is_up in ((run.index_entries, "index", True), (run.time_index_entries, "time-index", False)):
        if entries is None:
            top = middle - most if is_up else middle + 1
            drawing.rect(left, top, width, most - 1, "deletes", pattern="crosses")
            continue
        share = min(1.0, entries * interval / run.bytes) if run.bytes else 0.0
        height = max(2.0, share * most) if entries else 0.0
        if height:
            top = middle - height if is_up else middle
            drawing.rect(left, top, width, height, fill, pattern="plain" if is_up else "columns")


def _draw_epochs(drawing: Drawing, ribbon: Ribbon, scale: ByteScale, lanes: _Lanes) -> None:
    for number, band in enumerate(ribbon.epochs):
        left, right = scale.at(band.start_offset, band.start), scale.at(band.end_offset, band.start + band.bytes)
        width = max(right - left, 1)
        text = f"epoch {band.epoch:,}" if band.epochs == 1 else f"{band.epochs:,} epochs from {band.epoch:,}"
        tip = f"{text}: offsets {band.start_offset:,} to {band.end_offset:,}"
        with drawing.mark(band.item(), tip=tip):
            drawing.rect(left, lanes.epochs, width, _BAND, "band-b" if number % 2 else "band-a")
            for shown in (text, f"{band.epoch:,}"):
                if len(shown) * _CHARACTER + 8 <= width:
                    drawing.text(left + width / 2, lanes.epochs + 15, shown, anchor="middle")
                    break


def _draw_snapshots(drawing: Drawing, ribbon: Ribbon, scale: ByteScale, lanes: _Lanes) -> None:
    for tick in ribbon.snapshots:
        x, y = scale.at(tick.offset, tick.place), lanes.snapshots + _TICKS / 2
        several = f" and {tick.snapshots - 1:,} more near it" if tick.snapshots > 1 else ""
        with drawing.mark(tick.item(), tip=f"{tick.of} snapshot at offset {tick.offset:,}{several}"):
            drawing.line(x, lanes.snapshots, x, lanes.snapshots + _TICKS, "ink")
            drawing.circle(x, y, 4.5 if tick.snapshots > 1 else 3, "ink")


def _draw_transactions(drawing: Drawing, ribbon: Ribbon, scale: ByteScale, lanes: _Lanes) -> None:
    for number, bar in enumerate(ribbon.transactions):
        top = lanes.transactions + number * _BAR
        left, right = scale.at(bar.start_offset, bar.start), scale.at(bar.end_offset, bar.start + bar.bytes)
        with drawing.mark(bar.item(), tip=bar.tip, url=bar.url):
            drawing.rect(left, top + 15, max(right - left, 3), 9, "open", pattern="slash")
            text = _transaction_text(bar)
            if left + len(text) * _CHARACTER <= _RIGHT:
                _draw_label(drawing, left, top, text, anchor="start")
            else:
                _draw_label(drawing, right, top, text, anchor="end")


def _transaction_text(bar: TransactionBar) -> str:
    if bar.transactions > 1:
        return f"{bar.transactions:,} transactions from offset {bar.start_offset:,} on"
    return f"producer {bar.producer_id:,} from offset {bar.start_offset:,} on, blocks {size_text(bar.bytes)}"


def _draw_label(drawing: Drawing, x: float, top: float, text: str, *, anchor: str) -> None:
    width = len(text) * _CHARACTER + 4
    drawing.rect(x if anchor == "start" else x - width, top, width, 14, "ground")
    drawing.text(x + (2 if anchor == "start" else -2), top + 12, text, anchor=anchor)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flag:
    mark: OffsetMark
    x: float
    row: int
    text: str
    anchor: str


def _place_flags(marks: Sequence[OffsetMark], scale: ByteScale) -> list[_Flag]:
    """Give each mark a row in which its label covers no other label. Flags of the left half extend to the right."""
    placed: list[_Flag] = []
    taken: list[list[tuple[float, float]]] = []
    for mark in sorted(marks, key=lambda one: one.place):
        x = scale.at(mark.offset, mark.place)
        text = f"{', '.join(mark.names)} {mark.offset:,}"
        width = len(text) * _CHARACTER + 12
        anchor = "start" if x < (_LEFT + _RIGHT) / 2 else "end"
        left, right = (x, x + width) if anchor == "start" else (x - width, x)
        row = next(
            (at for at, spans in enumerate(taken) if all(right < low or left > high for low, high in spans)), len(taken)
        )
        if row == len(taken):
            taken.append([])
        taken[row].append((left, right))
        placed.append(_Flag(mark=mark, x=x, row=row, text=text, anchor=anchor))
    order = {mark.offset: number for number, mark in enumerate(marks)}
    return sorted(placed, key=lambda flag: order[flag.mark.offset])


def _draw_flags(drawing: Drawing, flags: Sequence[_Flag]) -> None:
    for flag in flags:
        with drawing.mark(flag.mark.item(), tip=flag.text):
            top, is_start = flag.row * _FLAG + 1, flag.anchor == "start"
            width = len(flag.text) * _CHARACTER
            drawing.rect(flag.x + 2 if is_start else flag.x - 2 - width, top, width, _FLAG - 4, "ground")
            drawing.text(flag.x + (5 if is_start else -5), top + 12, flag.text, anchor=flag.anchor)


def _legend(ribbon: Ribbon) -> list[StateStyle]:
    states = dict.fromkeys(run.state for run in ribbon.segments)
    if ribbon.tails:
        states.setdefault("lost")
    shown = [style for state, style in STYLES.items() if state in states]
    interval = f"{ribbon.index_interval_bytes:,}"
    shown.append(StateStyle("", "index", "plain", f"full height: an entry for each {interval} bytes"))
    shown.append(StateStyle("", "time-index", "columns", "the same for the time index"))
    if any(run.index_entries is None or run.time_index_entries is None for run in ribbon.segments):
        shown.append(StateStyle("", "deletes", "crosses", "an index file is missing"))
    return shown


def _draw_legend(drawing: Drawing, style: StateStyle, x: float, top: float) -> None:
    drawing.rect(x, top + 1, 36, 17, style.fill, pattern=style.pattern)
    if style.letter:
        _draw_letter(drawing, x + 18, top + 9.5, style.letter)
    drawing.text(x + 43, top + 14, style.meaning)
