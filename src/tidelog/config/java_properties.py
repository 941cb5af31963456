"""The text of a Java properties file, as ``java.util.Properties`` loads and stores it.

The loader knows comments (``#``, ``!``), the separators ``=``, ``:`` and white space, lines continued by a backslash,
and escapes such as ``\\uXXXX``. It returns each property's first line for error messages. The functions are pure.
Source: the documentation of ``Properties.load``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_BLANKS = " \t\f"
_KEY_END = "=:" + _BLANKS


class Property(NamedTuple):
    """A property and its line, counted from 1."""

    key: str
    value: str
    line: int


def load_properties(text: str) -> dict[str, str]:
    """Return values by key; the last one of a repeated key counts. Raise ValueError for a malformed ``\\u`` escape."""
    return {entry.key: entry.value for entry in properties(text)}


def properties(text: str) -> Iterator[Property]:
    """Yield every property in the order of the text, also repeated ones. A ValueError names the line."""
    for line, number in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        try:
            yield Property(_unescape(line[:end]), _unescape(rest), number)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def store_line(key: str, value: str) -> str:
    """Return an escaped ``key=value`` line without its line end."""
    return f"{_escape(key, key=True)}={_escape(value, key=False)}"


def comments(text: str) -> list[str]:
    """Return the comment lines, without the ``#`` or ``!``."""
    return [line.lstrip(_BLANKS)[1:] for line in _LINE_END.split(text) if line.lstrip(_BLANKS)[:1] in ("#", "!")]


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield each logical line with the number of its first natural line."""
    natural = enumerate(_LINE_END.split(text), start=1)
    for number, line in natural:
        logical = line.lstrip(_BLANKS)
        if logical[:1] in ("", "#", "!"):
            continue
        while _continues(logical):
            logical = logical[:-1] + next(natural, (0, ""))[1].lstrip(_BLANKS)
        yield logical, number


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _key_end(line: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in _KEY_END:
            return position
        else:
            position += 1
    return len(line)


def _unescape(text: str) -> str:
    out = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                digits = text[position : position + 4]
                if re.fullmatch(r"[0-9a-fA-F]{4}", digits) is None:
                    raise ValueError("malformed \\u escape")  # no digits here: they may be part of a secret
                character = chr(int(digits, 16))
                position += 4
            else:
                character = _ESCAPES.get(character, character)
        elif character == "\\":
            continue
        out.append(character)
    return "".join(out)


def _escape(text: str, *, key: bool) -> str:
    out = []
    for position, character in enumerate(text):
        if character == " " and (key or position == 0):
            out.append("\\ ")
        elif character in "=:#!":
            out.append("\\" + character)
        else:
            out.append(_ESCAPED.get(character, character))
    return "".join(out)
