"""Values and rows of tables as HTML. A page has hundreds of them, so they are made without a template.

Every value is escaped here. Pure. Thread rule: any thread.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from tidelog.web.page import Kind, Table
from tidelog.web.shown import exact, machine_time, shown

_RIGHT = frozenset({Kind.NUMBER, Kind.BYTES, Kind.PERCENT})
_PARENTS = {
    Kind.CODE: ("<code>", "</code>"),
    Kind.HEX: ('<span class="hex">', "</span>"),
    Kind.DATA: ('<span class="data">', "</span>"),
    Kind.SENTENCE: ('<span class="sentence">', "</span>"),
}
"""The elements around a value's text, which has a direction of its own."""


def value_html(value: object, kind: Kind) -> Markup:
    """Return a value as people see it, with its exact value as a tooltip if it is rounded."""
    return Markup(_value(value, kind))


def rows_html(table: Table) -> Markup:
    """Return the rows of a table's body."""
    columns = [
        (column.name, column.kind, column.link, '<td class="right">' if is_right(column.kind) else "<td>")
        for column in table.columns
    ]
    parts = []
    for row in table.rows:
        parts.append("<tr>\n")
        for name, kind, link, start in columns:
            url = None if link is None else link(row)
            text = _value(row[name], kind)
            parts.append(f'{start}<a href="{escape(url)}">{text}</a></td>\n' if url else f"{start}{text}</td>\n")
        parts.append("</tr>\n")
    return Markup("".join(parts))


def is_right(kind: Kind) -> bool:
    """Return True for numbers, which stand at the right of a column."""
    return kind in _RIGHT


def _value(value: object, kind: Kind) -> str:
    text, tip = escape(shown(value, kind)), exact(value, kind)
    if kind is Kind.TIME and isinstance(value, int) and value != -1:
        moment = machine_time(value)
        machine = "" if moment is None else f' datetime="{moment}"'
        return f'<time{machine} title="{tip}">{text}</time>'
    if kind in _PARENTS:
        start, end = _PARENTS[kind]
        return f"{start}<bdi>{text}</bdi>{end}"
    return f"<bdi>{text}</bdi>" if tip is None else f'<span title="{tip}">{text}</span>'
