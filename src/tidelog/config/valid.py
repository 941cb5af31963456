"""Rules for a key's values, in addition to its type.

Each rule rejects a value with Kafka's message. Its ``str`` is the text of Kafka's documentation, and ``words`` is for
people. The rules are pure. Source: the validators of ``ConfigDef``, ``CompressionType.levelValidator``,
``ThrottledReplicaListValidator``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from tidelog.config.value_text import Value, format_value

_THROTTLED_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class Valid(Protocol):
    def refusal(self, name: str, value: Value) -> str | None:
        """Return why the value of the key ``name`` is rejected, as a sentence; None if it is allowed."""

    @property
    def words(self) -> str:
        """The allowed values; empty if every value of the type is allowed."""


def invalid_value(name: str, text: str, reason: str) -> str:
    """Return Kafka's message for a value that its key does not accept (``ConfigException``)."""
    return f"Invalid value {text} for configuration {name}: {reason}"


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers from ``low`` to ``high``, both included. None sets no bound."""

    low: int | float
    high: int | float | None = None

    def refusal(self, name: str, value: Value) -> str | None:
        assert isinstance(value, int | float), name
        if self.high is not None and value > self.high:
            return invalid_value(name, format_value(value), f"Value must be no more than {self.high}")
        if not value >= self.low:  # true for NaN, too
            return invalid_value(name, format_value(value), f"Value must be at least {self.low}")
        return None

    def __str__(self) -> str:
        return f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"

    @property
    def words(self) -> str:
        return f"at least {self.low}" if self.high is None else f"{self.low} to {self.high}"


def at_least(low: int) -> Between:
    return Between(low)


@dataclass(frozen=True, slots=True)
class OneOf:
    """A choice of texts."""

    choices: tuple[str, ...]
    any_case: bool = False

    def refusal(self, name: str, value: Value) -> str | None:
        text = str(value)
        if (text.upper() if self.any_case else text) in self.choices:
            return None
        any_case = " (case insensitive)" if self.any_case else ""
        return invalid_value(name, text, f"String must be one of{any_case}: {', '.join(self.choices)}")

    def __str__(self) -> str:
        return ("(case insensitive) " if self.any_case else "") + f"[{', '.join(self.choices)}]"

    @property
    def words(self) -> str:
        return ", ".join(self.choices) + (" in any case" if self.any_case else "")


def one_of(*choices: str) -> OneOf:
    return OneOf(choices)


def one_of_any_case(*choices: str) -> OneOf:
    """Return a rule that ignores case. ``choices`` must be in upper case."""
    return OneOf(choices, any_case=True)


@dataclass(frozen=True, slots=True)
class Items:
    """List items that are not empty and are in ``choices``, if there are any. Repeated items count once."""

    choices: tuple[str, ...] = ()
    may_be_empty: bool = True

    def refusal(self, name: str, value: Value) -> str | None:
        assert isinstance(value, tuple), name
        if not value and not self.may_be_empty:
            allowed = str(self) or "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {allowed}"
        for item in value:
            if not item:
                return f"Configuration '{name}' values must not be empty."
            if self.choices and item not in self.choices:
                return invalid_value(name, item, f"String must be one of: {', '.join(self.choices)}")
        return None

    def __str__(self) -> str:
        return f"[{', '.join(self.choices)}]" if self.choices else ""

    @property
    def words(self) -> str:
        return ", ".join(self.choices) if self.choices or self.may_be_empty else "not empty"


ITEMS = Items()
SOME_ITEMS = Items(may_be_empty=False)


@dataclass(frozen=True, slots=True)
class LevelOrDefault:
    """The levels of gzip: a range, and a number outside it for the codec's default."""

    low: int
    high: int
    default: int

    def refusal(self, name: str, value: Value) -> str | None:
        assert isinstance(value, int), name
        if self.low <= value <= self.high or value == self.default:
            return None
        reason = f"Value must be between {self.low} and {self.high} or equal to {self.default}"
        return invalid_value(name, str(value), reason)

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.default}"

    @property
    def words(self) -> str:
        return f"{self.low} to {self.high}, or {self.default}"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """``partition:broker`` pairs, or ``*`` alone. The last item may be empty, as in Kafka."""

    def refusal(self, name: str, value: Value) -> str | None:
        assert isinstance(value, tuple), name
        pairs = value[:-1] if value[-1:] == ("",) else value
        if value == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", pair) for pair in pairs):
            return None
        reason = f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED_REPLICAS}"
        return invalid_value(name, f"[{', '.join(value)}]", reason)

    def __str__(self) -> str:
        return _THROTTLED_REPLICAS

    @property
    def words(self) -> str:
        return "partition:broker pairs, or *"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """Any text except the empty one."""

    def refusal(self, name: str, value: Value) -> str | None:
        return None if value else invalid_value(name, format_value(value), "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"

    @property
    def words(self) -> str:
        return "not empty"


@dataclass(frozen=True, slots=True)
class Anything:
    """No rule. ``written`` is the text of Kafka's documentation."""

    written: str = ""

    def refusal(self, name: str, value: Value) -> str | None:
        return None

    def __str__(self) -> str:
        return self.written

    @property
    def words(self) -> str:
        return ""


ANY = Anything()
