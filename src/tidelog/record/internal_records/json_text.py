"""The JSON text that Kafka prints for a decoded storage record.

Kafka builds a tree with its generated ``JsonConverter`` classes and prints it with Jackson: no blanks, fields in
table order, bytes as base64 with padding, control characters as ``\\u001F`` with capital digits. Doubles have Java's
format, and all other characters stay in Unicode. Pure. Thread rule: any thread.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

_ESCAPE = re.compile(r"(\\\\)|\\u00([01][0-9a-f])")


def kafka_json(value: Any) -> str:
    """Return one line of JSON for a value of the decoder: dict, list, str, int, bool, float, bytes or None."""
    kind = type(value)
    if kind is dict:
        members = [
            f'"{name}":{item}' if type(item) is int else f'"{name}":{kafka_json(item)}' for name, item in value.items()
        ]
        return "{" + ",".join(members) + "}"
    if kind is str:
        text = encode_basestring(value)
        return _ESCAPE.sub(_capital_escape, text) if "\\u00" in text else text
    if kind is int:
        return str(value)
    if kind is list:
        return "[" + ",".join([kafka_json(item) for item in value]) + "]"
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is bytes:
        return f'"{b64encode(value).decode()}"'
    if kind is float:
        return java_double(value)
    raise TypeError(f"the decoder makes no {kind.__name__}")


def java_double(value: float) -> str:
    """Format a double as Jackson prints ``Double.toString``: the shortest digits, at least one after the point.

    It has an exponent outside 10^-3..10^7; infinities and NaN have quotes.
    """
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    exponent += len(text) - 1
    text = text.rstrip("0")
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent}"


def _capital_escape(match: re.Match[str]) -> str:
    return match[0] if match[1] else "\\u00" + match[2].upper()
