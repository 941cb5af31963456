"""The text of ``sasl.jaas.config``: one login module with its options, in JAAS syntax. Pure.

::

    org.apache.kafka.common.security.plain.PlainLoginModule required
        user_alice="alice's password"
        user_bob='…';

Texts are in single or double quotes, with Java's escapes; words need no quotes. ``//`` and ``/* */`` are comments.
Errors name the expected token, never a value, because most values are passwords. Source: Kafka's ``JaasConfig``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.model import ConfigError

_TOKEN = re.compile(
    r"""(?P<skipped>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<sign>[=;])
    |(?P<quote>["'])(?P<text>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)
    |(?P<word>[^\s=;"'/]+)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


class Token(NamedTuple):
    text: str
    is_sign: bool
    """True for ``=`` and ``;``. False for a word or a quoted text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginModule:
    name: str
    """The name of the Java class."""
    options: Mapping[str, str] = field(repr=False)


def parse_jaas_config(text: str) -> LoginModule:
    """Return the login module. Raise ConfigError, without a value of an option, if it is not exactly one."""
    tokens = _tokens(text)
    name = _word(tokens, "the name of a login module")
    flag = _word(tokens, "a control flag")
    if flag.lower() not in _FLAGS:
        raise ConfigError(
            "the name of the login module must be followed by required, requisite, sufficient or optional"
        )
    options: dict[str, str] = {}
    while not _is_end(token := _next(tokens, "a semicolon")):
        if token.is_sign:
            raise ConfigError("an = has no option name before it")
        if not (sign := _next(tokens, "=")).is_sign or sign.text != "=":
            raise ConfigError(f"an = is missing after option {len(options) + 1}")
        options[token.text] = _word(tokens, f"the value of option {len(options) + 1}")
    if next(tokens, None) is not None:
        raise ConfigError("there has to be one login module, with its options and a semicolon, and nothing after it")
    return LoginModule(name=name, options=options)


def _tokens(text: str) -> Iterator[Token]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError(
                f"it cannot be read from character {position + 1} on: is a quote or a comment not closed?"
            )
        position = match.end()
        if match["sign"]:
            yield Token(match["sign"], True)
        elif match["quote"]:
            yield Token(_ESCAPE.sub(_unescaped, match["text"]), False)
        elif match["word"]:
            yield Token(match["word"], False)


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _ESCAPES.get(escaped, escaped)


def _next(tokens: Iterator[Token], expected: str) -> Token:
    token = next(tokens, None)
    if token is None:
        raise ConfigError(f"it ends where {expected} is expected")
    return token


def _word(tokens: Iterator[Token], expected: str) -> str:
    token = _next(tokens, expected)
    if token.is_sign:
        raise ConfigError(f"there is = or ; where {expected} is expected")
    return token.text


def _is_end(token: Token) -> bool:
    return token.is_sign and token.text == ";"
