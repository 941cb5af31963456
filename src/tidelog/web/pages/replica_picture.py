"""The picture of a compared partition's replicas, with the window of offsets that it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.inspect.compare import ComparedPartition, ComparedReplica, Role
from tidelog.inspect.compare.broker_directory import Replica
from tidelog.inspect.compare.comparison_rows import replica_names
from tidelog.web import urls
from tidelog.web.page import Picture, Row
from tidelog.web.svg.replicas import ReplicaLane, draw_replicas

MOST_LANES: Final = 12
_MOST_BANDS: Final = 20
"""The bands of a replica; neighbouring epochs are joined beyond that."""
_CLOSE: Final = 0.1
"""A window is offered if the interesting offsets take less than this share of the logs."""


@dataclass(frozen=True, slots=True)
class Window:
    """The shown offsets: from ``start`` to below ``end``."""

    start: int
    end: int


def whole_window(compared: ComparedPartition) -> Window:
    """Return the offsets that any readable replica has."""
    readable = [replica for _, replica in _readable(compared)]
    start = min((replica.log_start for replica in readable), default=0)
    return Window(start, max((replica.log_end for replica in readable), default=start))


def close_window(compared: ComparedPartition) -> Window | None:
    """Return a window around the differences, the ends and the high watermarks if they lie close together."""
    whole = whole_window(compared)
    places = []
    for one, replica in _readable(compared):
        places += [replica.log_end, replica.log_end if replica.checkpointed is None else replica.checkpointed]
        if one.difference is not None:
            places.append(one.difference.offset)
        if one.truncation is not None:
            places.append(one.truncation.offset)
    if not places:
        return None
    low, high = min(places), max(places)
    margin = max(5, (high - low) // 5)
    window = Window(max(whole.start, low - margin), high + margin)
    is_close = (window.end - window.start) < _CLOSE * (whole.end - whole.start)
    return window if is_close else None


def replica_picture(compared: ComparedPartition, keys: Mapping[Path, str], window: Window) -> Picture | None:
    """Return the picture, or None if no replica can be read. ``keys`` are the log directories' keys by path."""
    names, parities = replica_names(compared), _parities(compared)
    lanes = []
    for number, (one, replica) in enumerate(_readable(compared)[:MOST_LANES]):
        about: dict[str, object] = {"log_dir": keys[replica.directory.path], "replica": names[id(replica)]}
        lanes.append(
            ReplicaLane(
                title=names[id(replica)],
                subtitle=f"{one.role}, {one.state}" if one.role is not Role.UNKNOWN else str(one.state),
                bar={**about, **_bar(one, replica)},
                bands=[{**about, **band} for band in _bands(replica, parities, window)],
                marks=[{**about, **mark} for mark in _marks(one, replica, number, window)],
            )
        )
    if not lanes:
        return None
    log = compared.partition.directory_name
    return Picture(
        items=[item for lane in lanes for item in lane.in_turn()],
        draw=lambda: draw_replicas(
            lanes, start=window.start, end=window.end, tip=_tip, url=lambda item: _url(log, item)
        ),
    )


def _readable(compared: ComparedPartition) -> list[tuple[ComparedReplica, Replica]]:
    return [(one, one.replica) for one in compared.replicas if one.replica is not None and one.replica.is_readable]


def _parities(compared: ComparedPartition) -> Mapping[int, bool]:
    """Return True for every second epoch of all replicas, so that an epoch has the same colour in each of them."""
    epochs = sorted({entry.epoch for _, replica in _readable(compared) for entry in replica.epochs})
    return {epoch: number % 2 == 0 for number, epoch in enumerate(epochs)}


def _bar(one: ComparedReplica, replica: Replica) -> Row:
    return {
        "state": one.state.value,
        "role": one.role.value,
        "log_start": replica.log_start,
        "high_watermark": replica.checkpointed,
        "log_end": replica.log_end,
        "lag": one.lag,
    }


def _bands(replica: Replica, parities: Mapping[int, bool], window: Window) -> Iterator[Row]:
    bounds = [*(entry.start_offset for entry in replica.epochs), replica.log_end]
    bands = [
        (entry.epoch, max(entry.start_offset, replica.log_start), end)
        for entry, end in zip(replica.epochs, bounds[1:], strict=True)
    ]
    shown = [band for band in bands if band[1] < band[2] and band[1] < window.end and band[2] > window.start]
    size = max(1, -(-len(shown) // _MOST_BANDS))
    for first in range(0, len(shown), size):
        group = shown[first : first + size]
        yield {
            "epoch": group[0][0],
            "epochs": len(group),
            "is_even": parities[group[0][0]],
            "start": group[0][1],
            "end": group[-1][2],
        }


def _marks(one: ComparedReplica, replica: Replica, number: int, window: Window) -> Iterator[Row]:
    truncation = one.truncation
    if truncation is not None:
        start = replica.log_start if truncation.starts_over_at is not None else truncation.offset
        if start < replica.log_end and replica.log_end > window.start:
            yield {
                "mark": "truncation",
                "start": start,
                "end": replica.log_end,
                "records": one.truncated_records,
            }
    if one.difference is not None:
        yield {
            "mark": "difference",
            "kind": one.difference.kind.value,
            "offset": one.difference.offset,
            "section": difference_section(number),
        }


def difference_section(number: int) -> str:
    """Return the name of the section about a replica's first difference. ``number`` is its place in the picture."""
    return f"difference_{number}"


def _tip(item: Row) -> str:
    match item.get("mark"):
        case "difference":
            return f"{item['replica']}: first difference ({item['kind']}) at offset {item['offset']:,}"
        case "truncation":
            records = "" if item["records"] is None else f", {item['records']:,} records"
            return f"{item['replica']}: would truncate offsets {item['start']:,} to {item['end']:,}{records}"
    if "epoch" in item:
        epochs = f"epoch {item['epoch']}" if item["epochs"] == 1 else f"{item['epochs']} epochs from {item['epoch']} on"
        return f"{item['replica']}: {epochs}, offsets {item['start']:,} to {item['end']:,} (exclusive)"
    watermark = "not known" if item["high_watermark"] is None else f"{item['high_watermark']:,}"
    return (
        f"{item['replica']} ({item['state']}): log start {item['log_start']:,}, high watermark {watermark}, log end"
        f" {item['log_end']:,}"
    )


def _url(log: str, item: Row) -> str | None:
    key = str(item["log_dir"])
    if item.get("mark") == "difference":
        return f"#{item['section']}"
    if "start" in item:
        return urls.records_url(key, log, start=item["start"])
    return urls.log_url(key, log)
