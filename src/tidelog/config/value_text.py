"""The text form of a configuration value, by Kafka's types.

=========  ======================================  ==========================================================
type       in Python                               text
=========  ======================================  ==========================================================
BOOLEAN    bool                                    ``true`` or ``false``, in any case
SHORT      int of 16 bits                          digits with an optional sign
INT        int of 32 bits                          the same
LONG       int of 64 bits                          the same
DOUBLE     float                                   a decimal number, an exponent, ``NaN``, ``Infinity``
STRING     str                                     unchanged
CLASS      str                                     the name of a Java or Python class; nothing is loaded here
LIST       tuple[str, ...]                         items separated by commas; an empty text is an empty list
PASSWORD   Password                                unchanged; never shown
=========  ======================================  ==========================================================

White space around a value, and around an item of a list, is ignored. The reasons for a rejection are in Kafka's words,
because people search for them. The functions are pure. Source: ``ConfigDef.parseType``, ``ConfigDef.convertToString``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from decimal import Decimal

HIDDEN = "[hidden]"
"""The text that is shown instead of a password."""

_WHITE = "".join(map(chr, range(0x21)))
"""The characters that Java's ``trim`` removes."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[dDfF]?)", re.ASCII)
_PLAIN_DOUBLES = (1e-3, 1e7)
"""Java writes a double without an exponent from the first number to below the second."""


class KeyType(enum.StrEnum):
    """Kafka's names for the types of its ``ConfigDef``."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


@dataclass(frozen=True, slots=True, repr=False)
class Password:
    """A secret that only ``text`` reveals."""

    text: str

    def __repr__(self) -> str:
        return HIDDEN


Value = bool | int | float | str | tuple[str, ...] | Password

INTEGER_BITS = {KeyType.SHORT: 16, KeyType.INT: 32, KeyType.LONG: 64}


def parse_value(text: str, key_type: KeyType) -> Value:
    """Return the typed value. Raise ValueError with Kafka's reason if the text is not of that type."""
    text = text.strip(_WHITE)
    match key_type:
        case KeyType.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise ValueError("Expected value to be either true or false")
            return text.lower() == "true"
        case KeyType.SHORT | KeyType.INT | KeyType.LONG:
            return _integer(text, key_type)
        case KeyType.DOUBLE:
            if _DECIMAL.fullmatch(text) is None:
                raise ValueError("Not a number of type DOUBLE")
            return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("dDfF"))
        case KeyType.LIST:
            return tuple(item.strip(_WHITE) for item in text.split(",")) if text else ()
        case KeyType.PASSWORD:
            return Password(text)
        case _:
            return text


def format_value(value: Value | None) -> str:
    """Return the text that ``parse_value`` accepts; empty for None, and hidden for a password."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _double_text(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def _integer(text: str, key_type: KeyType) -> int:
    limit = 1 << (INTEGER_BITS[key_type] - 1)
    number = int(text) if len(text) < 25 and _INTEGER.fullmatch(text) else None
    if number is None or not -limit <= number < limit:
        raise ValueError(f"Not a number of type {key_type}")
    return number


def _double_text(number: float) -> str:
    """Format a double as Java's ``Double.toString`` does."""
    if number != number or number in (float("inf"), float("-inf")):
        return str(number).replace("nan", "NaN").replace("inf", "Infinity")
    if number == 0 or _PLAIN_DOUBLES[0] <= abs(number) < _PLAIN_DOUBLES[1]:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), number
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"
