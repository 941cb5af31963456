"""Lines of constant text with decimal numbers between, built for many rows at once.

``line_text`` is ``[f"offset: {a} size: {b}\\n" for a, b in zip(...)]`` without Python code for each row. All rows form
one matrix of bytes, wide enough for the longest number of each column. A table gives four digits at a time. Unused
cells hold a zero byte and are dropped at the end. This is several times as fast as f-strings, which a dump of many
small records needs. The functions are pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
_Matrix = npt.NDArray[np.uint8]

_FOUR_DIGITS = np.frombuffer(b"".join([b"%04d" % number for number in range(10_000)]), np.uint32)
_SMALLEST = np.iinfo(np.int64).min


class Choice(NamedTuple):
    """A part with one of a few ASCII texts per row: ``texts[which[row]]``."""

    which: npt.NDArray[np.integer]
    texts: Sequence[str]


Part = str | Int64s | Choice


class LineText(NamedTuple):
    """``text[starts[i]:starts[i + 1]]`` is the line of row i."""

    text: str
    starts: npt.NDArray[np.int64]

    def lines(self) -> list[str]:
        text = self.text
        return [text[start:end] for start, end in pairwise(self.starts.tolist())]

    def between(self, bounds: npt.NDArray[np.integer]) -> list[str]:
        """Return the lines ``[bounds[i], bounds[i + 1])`` as one text, for each i."""
        text = self.text
        return [text[start:end] for start, end in pairwise(self.starts[bounds].tolist())]


def line_text(count: int, parts: Sequence[Part]) -> LineText:
    """Build the lines of ``count`` rows. Texts are ASCII, and every number column has ``count`` rows."""
    laid_out = [_constant(part) if count else "" for part in parts]
    row = b"".join(part.encode("ascii") if isinstance(part, str) else bytes(_width(part)) for part in laid_out)
    width = len(row)
    data = bytearray(row) * count
    matrix = np.frombuffer(data, np.uint8).reshape(count, width)
    padding = np.zeros(count, np.int64)
    at = 0
    for part in laid_out:
        end = at + _width(part)
        if isinstance(part, Choice):
            padding += _write_choice(matrix, at, end, part)
        elif not isinstance(part, str):
            padding += _write_numbers(matrix, at, end, part)
        at = end
    starts = np.arange(count + 1, dtype=np.int64) * width
    if padding.any():
        data = data.translate(None, b"\0")
        starts[1:] -= np.cumsum(padding)
    return LineText(data.decode("ascii"), starts)


def _constant(part: Part) -> Part:
    """Return a part that is the same in all rows (at least one) as text. Return any other part unchanged."""
    if isinstance(part, str):
        return part
    if isinstance(part, Choice):
        return part.texts[int(part.which[0])] if (part.which == part.which[0]).all() else part
    return str(part[0]) if (part == part[0]).all() else part


def _width(part: Part) -> int:
    if isinstance(part, str):
        return len(part)
    if isinstance(part, Choice):
        return max(map(len, part.texts))
    return max(len(str(part.min())), len(str(part.max())))


def _write_choice(matrix: _Matrix, start: int, end: int, part: Choice) -> Int64s:
    width = end - start
    table = np.frombuffer(b"".join([text.encode("ascii").ljust(width, b"\0") for text in part.texts]), np.uint8)
    matrix[:, start:end] = table.reshape(-1, width)[part.which]
    padding: Int64s = np.array([width - len(text) for text in part.texts], np.int64)[part.which]
    return padding


def _write_numbers(matrix: _Matrix, start: int, end: int, numbers: Int64s) -> Int64s:
    """Write right-aligned digits with zero bytes before them. Return the number of zero bytes in each row."""
    negative = numbers < 0
    if negative.any():
        return _write_signed(matrix, start, end, numbers, negative)
    _write_digits(matrix, start, end, numbers)
    return _drop_leading_zeros(matrix, start, end, numbers)


def _write_signed(matrix: _Matrix, start: int, end: int, numbers: Int64s, negative: npt.NDArray[np.bool_]) -> Int64s:
    if (numbers == _SMALLEST).any():  # the only number without a magnitude in int64
        texts = [str(number).encode("ascii").rjust(end - start, b"\0") for number in numbers.tolist()]
        matrix[:, start:end] = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, end - start)
        zeros: Int64s = np.sum(matrix[:, start:end] == 0, axis=1, dtype=np.int64)
        return zeros
    magnitude = np.abs(numbers)
    _write_digits(matrix, start, end, magnitude)
    padding = _drop_leading_zeros(matrix, start, end, magnitude)
    rows = np.flatnonzero(negative)
    matrix[rows, start + padding[rows] - 1] = ord("-")
    padding[rows] -= 1
    return padding


def _write_digits(matrix: _Matrix, start: int, end: int, numbers: Int64s) -> None:
    while end > start:
        rest = numbers // 10_000
        digits = _FOUR_DIGITS.take(numbers - rest * 10_000).view(np.uint8).reshape(-1, 4)
        size = min(4, end - start)
        matrix[:, end - size : end] = digits[:, 4 - size :]
        numbers = rest
        end -= size


def _drop_leading_zeros(matrix: _Matrix, start: int, end: int, numbers: Int64s) -> Int64s:
    padding = np.zeros(len(numbers), np.int64)
    for digits in range(1, end - start):
        if digits > 18:  # no int64 has more than 19 digits: the cell is for a sign
            short = np.ones(len(numbers), np.bool_)
        else:
            short = numbers < 10**digits
        if not short.any():
            continue
        matrix[short, end - 1 - digits] = 0
        padding += short
    return padding
