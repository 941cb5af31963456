"""Keys, values and headers as members of a table's row."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.inspect.record_scan import Piece
from tidelog.inspect.shown_values import ShownValue, plain_value
from tidelog.web.page import Row

_HEADER_BYTES = 256
"""A header is shortened to this length, unless the page asks for longer values."""


def value_columns(shown: tuple[ShownValue, ShownValue]) -> Row:
    """Return the members ``key`` and ``value``, each with its format, size, schema and problem."""
    columns: dict[str, object] = {}
    for name, one in zip(("key", "value"), shown, strict=True):
        columns[name] = one.value
        columns[f"{name}_format"] = one.form
        columns[f"{name}_size"] = one.size
        columns[f"{name}_is_shortened"] = one.is_shortened
        columns[f"{name}_schema"] = one.schema
        columns[f"{name}_problem"] = one.problem or None
    return columns


def headers_json(headers: Sequence[tuple[str, Piece | None]], count: int, most_bytes: int) -> list[Row] | None:
    """Return the headers as a list, None without any. A last element tells how many more there are."""
    most = max(_HEADER_BYTES, most_bytes // 16)
    shown: list[Row] = []
    for key, piece in headers:
        value = plain_value(piece, most)
        row: dict[str, object] = {"key": key[:most], "value": value.value}
        if value.is_shortened:
            row["size"] = value.size
        shown.append(row)
    if count > len(headers):
        shown.append({"more": count - len(headers)})
    return shown or None
