"""Values as people see them: sizes, times, durations, shares, and text that is escaped. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tidelog.inspect.durations import duration_text
from tidelog.inspect.printable import escaped
from tidelog.inspect.record_rows import iso_time
from tidelog.web.page import Kind

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
NOTHING = "–"


def size_text(size: int) -> str:
    """Return a size such as ``1.5 GiB``, or ``312 bytes``."""
    value = float(size)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            return f"{size:,} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit takes every size")


def time_text(timestamp_ms: int) -> str:
    """Return a time such as ``2026-11-28 17:30:00.000 UTC``."""
    text = iso_time(timestamp_ms)
    return text.replace("T", " ").replace("Z", " UTC") if text.endswith("Z") else text


def machine_time(timestamp_ms: int) -> str | None:
    """Return a time for HTML's ``datetime`` attribute, or None if it is outside of the calendar."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds")


def shown(value: object, kind: Kind | str = Kind.TEXT) -> str:
    """Return a value as text for people, escaped for a terminal. HTML is escaped later, by the templates.

    Templates give ``kind`` by its name.
    """
    kind = Kind(kind)
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int() if kind is Kind.BYTES:
            return size_text(value)
        case int() if kind is Kind.TIME:
            return NOTHING if value == -1 else time_text(value)
        case int() if kind is Kind.DURATION:
            return duration_text(value)
        case int() | float() if kind is Kind.PERCENT:
            return f"{value:.1%}"
        case int():
            return str(value) if kind in (Kind.CODE, Kind.HEX, Kind.DATA) else f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case str():
            return escaped(value)
        case dict() | list() if kind is Kind.DATA:
            return escaped(json.dumps(value, ensure_ascii=False, default=str))
        case list() | tuple() if all(isinstance(one, str | int) for one in value):
            return escaped(", ".join(str(one) for one in value)) if value else NOTHING
    return escaped(json.dumps(value, ensure_ascii=False, default=str))


def exact(value: object, kind: Kind) -> str | None:
    """Return the exact value for a tooltip if ``shown`` rounds it."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    match kind:
        case Kind.BYTES if abs(value) >= 1024:
            return f"{value:,} bytes"
        case Kind.DURATION:
            return f"{value:,} ms"
        case Kind.TIME:
            return f"{value} ms since 1970"
    return None
