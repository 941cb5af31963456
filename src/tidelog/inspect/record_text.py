"""Keys, values, headers and times of records as text. Pure; any thread."""

from __future__ import annotations

import enum
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tidelog.model import Header
from tidelog.record.internal.text import java_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BytesFormat(enum.StrEnum):
    """How bytes are shown; null stays null in all of them.

    AUTO: text where it is UTF-8, else hex behind ``0x``. TEXT: what is not UTF-8 comes as U+FFFD. JSON: the parsed
    value, as AUTO where it is none. NONE: left out.
    """

    AUTO = "auto"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"
    NONE = "none"


def shown_bytes(data: bytes | None, form: BytesFormat) -> Any:
    """A JSON value."""
    if data is None or form is BytesFormat.NONE:
        return None
    match form:
        case BytesFormat.TEXT:
            return java_text(data)
        case BytesFormat.HEX:
            return data.hex()
        case BytesFormat.BASE64:
            return b64encode(data).decode()
        case BytesFormat.JSON:
            try:
                return json.loads(data, parse_constant=_refuse)
            except (ValueError, RecursionError):
                pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def shown_headers(headers: Sequence[Header]) -> list[dict[str, Any]]:
    """A list, since header keys may come twice and their order counts."""
    return [{"key": header.key, "value": shown_bytes(header.value, BytesFormat.AUTO)} for header in headers]


def iso_time(timestamp_ms: int) -> str:
    """``2001-01-01T08:15:00.000Z``; the number itself for what no calendar has, and for -1 (none)."""
    if timestamp_ms == -1:
        return "-1"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
