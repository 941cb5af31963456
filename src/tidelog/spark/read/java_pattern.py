"""The translation of ``subscribePattern`` from a Java regular expression to a Python one.

Both match the same topic names. Topic names are ASCII letters, digits, ``.``, ``_`` and ``-``. So only constructs that
make a difference for these are translated, and the rest of the two languages agrees (from Python 3.11 on). A Java
construct that Python lacks is an error, never a guess. The functions are pure. Source of the syntax: the documentation
of ``java.util.regex.Pattern``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tidelog.model import ConfigError

_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
    "IsAlphabetic": "a-zA-Z",
    "IsDigit": "0-9",
    "IsLowercase": "a-z",
    "IsUppercase": "A-Z",
    "javaLowerCase": "a-z",
    "javaUpperCase": "A-Z",
}
"""Java's ``\\p{…}`` over ASCII, as the inside of a character class."""

_TOKEN = re.compile(
    r"""\\Q(?P<quoted>.*?)(?:\\E|$)
    | \\(?P<negated>[pP])(?:\{(?P<category>\w+)\}|(?P<letter>[A-Z]))
    | \\k<(?P<reference>\w+)>
    | \\x\{(?P<code>[0-9A-Fa-f]+)\}
    | \\(?P<end>[zZ])
    | \\(?P<lacking>[hHvVRXGe])
    | (?P<escaped>\\.)
    | \(\?<(?P<group>[A-Za-z]\w*)>
    | (?P<intersection>&&)
    | (?P<open>\[)
    | (?P<close>\])
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=16)
def compile_java_pattern(text: str) -> re.Pattern[str]:
    """Compile ``text`` for ``search``, as Spark's Kafka source matches topics. Raise ConfigError if that fails."""
    try:
        return re.compile(_translated(text), re.ASCII)
    except re.error as error:
        raise ConfigError(f"Option 'subscribePattern' is not a regular expression: {text!r}: {error}") from None


def _translated(text: str) -> str:
    parts: list[str] = []
    in_class = False
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "quoted":
                parts.append(re.escape(token["quoted"]))
            case "category" | "letter":
                parts.append(_category(token, text, in_class=in_class))
            case "reference":
                parts.append(f"(?P={token['reference']})")
            case "code":
                parts.append(re.escape(chr(int(token["code"], 16))))
            case "end":
                parts.append(r"\Z")  # a topic name has no line break at its end
            case "group":
                parts.append(f"(?P<{token['group']}>" if not in_class else re.escape(token[0]))
            case "lacking":
                raise _unsupported(token[0], text)
            case "intersection" if in_class:
                raise _unsupported("&& in a class", text)
            case "open":
                if in_class:
                    raise _unsupported("a class within a class", text)
                in_class = True
                parts.append("[")
            case "close":
                in_class = False
                parts.append("]")
            case _:
                parts.append(token[0])
    return "".join(parts)


def _category(token: re.Match[str], text: str, *, in_class: bool) -> str:
    name = token["category"] or token["letter"]
    inside = _CLASSES.get(name)
    negated = token["negated"] == "P"
    if inside is None or (negated and in_class):
        raise _unsupported(token[0], text)
    if in_class:
        return inside
    return f"[^{inside}]" if negated else f"[{inside}]"


def _unsupported(what: str, text: str) -> ConfigError:
    return ConfigError(f"Option 'subscribePattern' uses {what}, which is not supported here: {text!r}")
