"""``ssl.principal.mapping.rules``: the mapping from distinguished names to users. Pure.

::

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L , RULE:^UID=(.*?),.*$/$1/ , DEFAULT

The first rule whose pattern matches the complete name counts. The user is its replacement, in lower case with ``L`` or
upper case with ``U``. DEFAULT keeps the name. Patterns are Java's; syntax that Python's ``re`` lacks is refused.
Source: Kafka's ``SslPrincipalMapper``; KIP-371.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tidelog.model import ConfigError

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
