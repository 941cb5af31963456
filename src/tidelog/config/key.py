"""The row type of the tables of configuration keys.

The tables are the only source of names, types, defaults and ranges: parsing, ``LogConfig``, ``tidelog config`` and
``docs/configuration.md`` read them. A test compares them with Kafka's own. This module is pure.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.config.valid import Items, Valid, invalid_value
from tidelog.config.value_text import HIDDEN, INTEGER_BITS, KeyType, Password, Value, format_value, parse_value
from tidelog.model import ConfigError


class Importance(enum.StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(enum.StrEnum):
    """The ways to change a broker's key (Kafka's ``DynamicBrokerConfig``)."""

    READ_ONLY = "read-only"
    """A change needs a restart."""
    PER_BROKER = "per-broker"
    """A dynamic setting of one broker."""
    CLUSTER_WIDE = "cluster-wide"
    """A dynamic setting of one broker or of all brokers."""


class Effect(enum.StrEnum):
    """A key's effect in tidelog, apart from the check of its type and range, which every key has.

    The accessors of ``BrokerConfig`` enforce it: code can read only a key that has an effect.
    """

    USED = "used"
    """tidelog acts on the value."""
    CHECKED = "checked"
    """The value only takes part in the checks of other settings."""
    NONE = "none"
    """The value is only shown."""


@dataclass(frozen=True, slots=True)
class Key:
    """A row of the tables, written without field names so that it reads like one.

    ``default`` is None for no default. Kafka starts no broker without a ``required`` key, and does not document an
    ``internal`` one.
    """

    name: str
    type: KeyType
    default: Value | None
    valid: Valid
    importance: Importance
    mode: UpdateMode
    doc: str
    effect: Effect = Effect.NONE
    required: bool = False
    internal: bool = False

    def parse(self, text: str) -> Value:
        """Return the value of a text. Raise ConfigError, in Kafka's words, if it is not allowed."""
        try:
            value = parse_value(text, self.type)
        except ValueError as error:
            raise ConfigError(self._refused(text, str(error))) from None
        if isinstance(self.valid, Items) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raise ConfigError if a value is outside the range of its type or key."""
        bits = INTEGER_BITS.get(self.type)
        if bits is not None and isinstance(value, int) and not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ConfigError(self._refused(format_value(value), f"Not a number of type {self.type}"))
        refusal = self.valid.refusal(self.name, value)
        if refusal is not None:
            raise ConfigError(refusal)

    def require_effect(self) -> None:
        """Raise AssertionError if code reads a key whose row declares no effect."""
        assert self.effect is not Effect.NONE, f"{self.name} is read, but its table says that nothing comes of it"

    @property
    def used(self) -> bool:
        return self.effect is Effect.USED

    @property
    def is_dynamic(self) -> bool:
        return self.mode is not UpdateMode.READ_ONLY

    @property
    def is_secret(self) -> bool:
        return self.type is KeyType.PASSWORD

    @property
    def default_text(self) -> str:
        """The default as a properties file has it; empty if there is none, hidden for a password."""
        return HIDDEN if isinstance(self.default, Password) else format_value(self.default)

    def _refused(self, text: str, reason: str) -> str:
        return invalid_value(self.name, HIDDEN if self.is_secret else text, reason)


def table(*keys: Key) -> dict[str, Key]:
    """Return the keys by name, in the given order."""
    return {key.name: key for key in keys}
