"""Bytes as rows of 16, in hex and as text, with the names of the fields in each row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

ROW_BYTES: Final = 16
_HIDDEN_HEX: Final = "··"
_MOST_NAMES: Final = 12


class NamedSpan(NamedTuple):
    """The bytes ``[start, end)`` with a name."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class HexRow:
    position: int
    hex: str
    text: str
    fields: tuple[str, ...]
    """The names of the fields with bytes in the row. The last one tells how many more there are, if there are many."""


def hex_rows(
    data: bytes, position: int, spans: Sequence[NamedSpan], hidden: Sequence[tuple[int, int]] = ()
) -> list[HexRow]:
    """Return the rows of ``data``, whose first byte lies at ``position``. Hidden bytes are shown as dots."""
    shown = bytearray(len(data))
    for start, end in hidden:
        low, high = max(0, start - position), min(len(data), end - position)
        if low < high:
            shown[low:high] = b"\x01" * (high - low)
    rows = []
    for at in range(0, len(data), ROW_BYTES):
        row, masks = data[at : at + ROW_BYTES], shown[at : at + ROW_BYTES]
        first, end = position + at, position + at + len(row)
        names = [span.name for span in spans if span.start < end and span.end > first]
        if len(names) > _MOST_NAMES:
            names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
        pairs = [_HIDDEN_HEX if mask else f"{byte:02x}" for byte, mask in zip(row, masks, strict=True)]
        text = "".join(_character(byte, mask) for byte, mask in zip(row, masks, strict=True))
        rows.append(HexRow(first, _in_halves(pairs), text, tuple(names)))
    return rows


def _in_halves(pairs: Sequence[str]) -> str:
    half = ROW_BYTES // 2
    return " ".join(pairs[:half]) + ("  " if len(pairs) > half else "") + " ".join(pairs[half:])


def _character(byte: int, mask: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F and not mask else "·"
