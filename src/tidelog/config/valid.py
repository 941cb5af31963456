"""Which values a key may have, besides being of its type. Pure.

Each rule says in Kafka's words why it refuses a value, and is written (``str``) as Kafka's documentation writes it;
``words`` is for people.
Source: the validators of ``ConfigDef``, ``CompressionType.levelValidator``, ``ThrottledReplicaListValidator``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from tidelog.config.value_text import Value, format_value

_THROTTLED_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


class Valid(Protocol):
    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        """The part of the value that is refused, and why; None for a value that is allowed."""

    @property
    def words(self) -> str:
        """What is allowed; empty where everything of the type is."""


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers from ``low`` to ``high``, both included; None sets no bound."""

    low: int | float
    high: int | float | None = None

    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        assert isinstance(value, int | float), name
        if self.high is not None and value > self.high:
            return format_value(value), f"Value must be no more than {self.high}"
        if not value >= self.low:  # so is what is not a number
            return format_value(value), f"Value must be at least {self.low}"
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
    """Texts of a choice; of a list, each item."""

    choices: tuple[str, ...]
    any_case: bool = False

    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        items = value if isinstance(value, tuple) else (str(value),)
        for item in items:
            if (item.upper() if self.any_case else item) not in self.choices:
                any_case = " (case insensitive)" if self.any_case else ""
                return item, f"String must be one of{any_case}: {', '.join(self.choices)}"
        return None

    def __str__(self) -> str:
        return ("(case insensitive) " if self.any_case else "") + f"[{', '.join(self.choices)}]"

    @property
    def words(self) -> str:
        return ", ".join(self.choices) + (" in any case" if self.any_case else "")


def one_of(*choices: str) -> OneOf:
    return OneOf(choices)


def one_of_any_case(*choices: str) -> OneOf:
    """``choices`` in upper case."""
    return OneOf(choices, any_case=True)


@dataclass(frozen=True, slots=True)
class LevelOrDefault:
    """The levels of gzip: a range, and beside it one number for the codec's default."""

    low: int
    high: int
    default: int

    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        assert isinstance(value, int), name
        if self.low <= value <= self.high or value == self.default:
            return None
        return str(value), f"Value must be between {self.low} and {self.high} or equal to {self.default}"

    def __str__(self) -> str:
        return f"[{self.low},...,{self.high}] or {self.default}"

    @property
    def words(self) -> str:
        return f"{self.low} to {self.high}, or {self.default}"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """``partition:broker`` pairs, or ``*`` alone; one empty item may end the list, as in Kafka."""

    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        assert isinstance(value, tuple), name
        pairs = value[:-1] if value[-1:] == ("",) else value
        if value == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", pair) for pair in pairs):
            return None
        return f"[{', '.join(value)}]", (
            f"{name} must be the literal '*' or a list of replicas in the following format: {_THROTTLED_REPLICAS}"
        )

    def __str__(self) -> str:
        return _THROTTLED_REPLICAS

    @property
    def words(self) -> str:
        return "partition:broker pairs, or *"


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """Texts, not the empty one."""

    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        return None if value else (format_value(value), "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"

    @property
    def words(self) -> str:
        return "not empty"


@dataclass(frozen=True, slots=True)
class Anything:
    """No rule of its own; ``written`` is what Kafka's documentation says in its place."""

    written: str = ""

    def refusal(self, name: str, value: Value) -> tuple[str, str] | None:
        return None

    def __str__(self) -> str:
        return self.written

    @property
    def words(self) -> str:
        return ""


ANY = Anything()
