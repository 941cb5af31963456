"""Keys, values, headers and times of records as text. The functions are pure. Thread rule: any thread."""

from __future__ import annotations

import enum
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tidelog.model import Header
from tidelog.record.internal_records.text import java_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BytesFormat(enum.StrEnum):
    """The formats of bytes. Null stays null in all of them.

    AUTO is text for UTF-8, else hex with the prefix ``0x``. TEXT replaces invalid UTF-8 by U+FFFD. JSON is the parsed
    value, or AUTO if the bytes are not JSON. NONE leaves the bytes out.
    """

    AUTO = "auto"
    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"
    JSON = "json"
    NONE = "none"


def shown_bytes(data: bytes | None, form: BytesFormat) -> Any:
    """Return a JSON value for the bytes."""
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
    """Return the headers as a list, since header keys may repeat and their order counts."""
    return [{"key": header.key, "value": shown_bytes(header.value, BytesFormat.AUTO)} for header in headers]


def iso_time(timestamp_ms: int) -> str:
    """Format a time like ``2001-01-01T08:15:00.000Z``. Return the number itself if it is -1 or beyond the calendar."""
    if timestamp_ms == -1:
        return "-1"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
