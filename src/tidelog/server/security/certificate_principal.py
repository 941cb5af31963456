"""The user of a client's certificate: its distinguished name, mapped by ``ssl.principal.mapping.rules``. Pure.

``CN=alice,OU=accounts,O=Example\\, Inc.,C=SE`` is a name in Java's form, as principals and ACLs have it. The last part
comes first, with the nine short names of RFC 2253. An attribute without a short name, such as an e-mail address, is its
OID with its bytes in hex: ``1.2.840.113549.1.9.1=#1603612e62``. A value that is not a text is in hex too. The name is
decoded from the certificate's own bytes. Every certificate has a name, even if a text does not match its declared type,
as in Java. The rules look like this::

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , RULE:^UID=(.*?),.*$/$1/ , DEFAULT

The first rule whose pattern matches the complete name counts. The user is its replacement, in lower case with ``L`` or
upper case with ``U``. DEFAULT keeps the name. Patterns are Java's; syntax that Python's ``re`` lacks is refused.
Source: Kafka's ``SslPrincipalMapper``, KIP-371; Java's ``X500Principal.getName``; X.690 for the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.model import ConfigError

_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The tags of strings that are written as text: UTF8, printable, T61, IA5, general, BMP. All are read as UTF-8."""
_ESCAPED = frozenset(',=+<>#;"\\')
_SPACES = " \r"
_VERSION = 0xA0
_SUBJECT = 4
"""The subject's position, after serial number, algorithm, issuer and validity."""


def distinguished_name(certificate: bytes) -> str:
    """Return the subject of a DER certificate. Raise ValueError if the bytes are not a certificate."""
    try:
        fields = list(_elements(next(_elements(next(_elements(certificate)).content)).content))
        subject = [field for field in fields if field.tag != _VERSION][_SUBJECT]
        parts = ["+".join(map(_attribute, _elements(part.content))) for part in _elements(subject.content)]
    except (IndexError, StopIteration):
        raise ValueError("it is not a certificate") from None
    return ",".join(reversed(parts))


class _Element(NamedTuple):
    tag: int
    data: bytes
    """The complete bytes with tag and length."""
    content: bytes


def _elements(data: bytes) -> Iterator[_Element]:
    position = 0
    while position < len(data):
        tag, size, begin = data[position], data[position + 1], position + 2
        if size > 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[begin : begin + count])
            begin += count
        end = begin + size
        if end > len(data):
            raise ValueError(f"{end - len(data)} bytes of the certificate are missing")
        yield _Element(tag, data[position:end], data[begin:end])
        position = end


def _attribute(attribute: _Element) -> str:
    number, value = _elements(attribute.content)
    dotted = _dotted(number.content)
    name = _NAMES.get(dotted, dotted)
    if name is dotted or value.tag not in _TEXTS:
        return f"{name}=#{value.data.hex()}"
    return f"{name}={_escaped(value.content.decode(errors='replace'))}"


def _dotted(number: bytes) -> str:
    """Decode an object identifier: seven bits per byte, and the first two numbers in one."""
    numbers, value = [], 0
    for byte in number:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escaped(text: str) -> str:
    first, last = len(text) - len(text.lstrip(_SPACES)), len(text.rstrip(_SPACES))

    def escaped(index: int, char: str) -> str:
        if char == "\0":
            return "\\00"
        return f"\\{char}" if char in _ESCAPED or not first <= index < last else char

    return "".join(escaped(index, char) for index, char in enumerate(text))


_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?))?"
    r"\s*(?:,|$)",
    re.DOTALL,
)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)|\$\{([A-Za-z]\w*)\}")
_NAMED = re.compile(r"\(\?<(?=[A-Za-z])")
"""The beginning of a named group in Java."""
_CASES: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. ``pattern`` is None for DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the user, or None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return _CASES[self.case](self.pattern.sub(self._replaced, name))

    def _replaced(self, match: re.Match[str]) -> str:
        def text(one: re.Match[str]) -> str:
            return one[1] or match[int(one[2]) if one[2] else one[3]] or ""

        return _REFERENCE.sub(text, self.replacement)


class PrincipalRules:
    def __init__(self, text: str) -> None:
        """Parse the rules. Raise ConfigError if ``text`` is not a list of rules."""
        self._rules = tuple(_parsed(text.strip() or "DEFAULT"))

    def user_of(self, name: str) -> str | None:
        """Return the user, or None if no rule matches: then the client has no user."""
        return next((user for rule in self._rules if (user := rule.apply(name)) is not None), None)


def _parsed(text: str) -> list[Rule]:
    rules, position = [], 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ConfigError(f"ssl.principal.mapping.rules: {text[position:]!r} does not begin with a rule")
        position = match.end()
        if match["default"]:
            rules.append(Rule(None))
        elif match["pattern"] is not None:  # an empty entry is ignored
            rules.append(_rule(match))
    return rules


def _rule(match: re.Match[str]) -> Rule:
    try:
        pattern = re.compile(_NAMED.sub("(?P<", match["pattern"]))
        rule = Rule(pattern, match["replacement"], match["case"])
        for _, number, name in _REFERENCE.findall(rule.replacement):
            if (number and int(number) > pattern.groups) or (name and name not in pattern.groupindex):
                raise re.error(f"there is no group {number or name}")
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {match[0].strip(' ,')!r}: {error}") from None
    return rule
