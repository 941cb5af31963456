"""One configuration key: what the tables of topic and broker settings have a row of. Pure.

The tables are the only place where names, types, defaults and ranges stand: parsing, ``LogConfig``, ``tidelog config``
and ``docs/configuration.md`` read them. A test holds them against Kafka's own.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.config.valid import Items, Valid, invalid_value
from tidelog.config.value_text import HIDDEN, INTEGER_BITS, KeyType, Password, Value, format_value, parse_value
from tidelog.model import ConfigError


class Importance(enum.StrEnum):
    """Kafka's word for how often a key is worth a look."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(enum.StrEnum):
    """What may change a broker's key (Kafka's ``DynamicBrokerConfig``)."""

    READ_ONLY = "read-only"
    """A restart."""
    PER_BROKER = "per-broker"
    """A dynamic setting of one broker."""
    CLUSTER_WIDE = "cluster-wide"
    """A dynamic setting of one broker or of all."""


class Effect(enum.StrEnum):
    """What comes of a key in tidelog, beyond its own type and range, which are checked of every key.

    The accessors of ``BrokerConfig`` hold the code to this: a value can only be read as its key's effect allows.
    """

    USED = "used"
    """tidelog acts by the value."""
    CHECKED = "checked"
    """Settings are held against it, and some are refused. Nothing else comes of it."""
    NONE = "none"
    """The value is shown to those who ask for it."""


@dataclass(frozen=True, slots=True)
class Key:
    """A row of the tables, written without names of fields so that it reads like one.

    ``default`` None: not set. ``required``: Kafka starts no broker without it. ``internal``: Kafka leaves it out of its
    documentation.
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
        """The value a text stands for; ConfigError, in Kafka's words, where that is not allowed."""
        try:
            value = parse_value(text, self.type)
        except ValueError as error:
            raise ConfigError(self._refused(text, str(error))) from None
        if isinstance(self.valid, Items) and isinstance(value, tuple):
            value = tuple(dict.fromkeys(value))
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """ConfigError for a value that is out of the range of its type or of the key."""
        bits = INTEGER_BITS.get(self.type)
        if bits is not None and isinstance(value, int) and not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ConfigError(self._refused(format_value(value), f"Not a number of type {self.type}"))
        refusal = self.valid.refusal(self.name, value)
        if refusal is not None:
            raise ConfigError(refusal)

    def require_effect(self) -> None:
        """AssertionError for a key that is read by what acts, although its row says that nothing comes of it."""
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
        """As a properties file would say it; empty where there is none."""
        return HIDDEN if isinstance(self.default, Password) else format_value(self.default)

    def _refused(self, text: str, reason: str) -> str:
        return invalid_value(self.name, HIDDEN if self.is_secret else text, reason)


def table(*keys: Key) -> dict[str, Key]:
    """By name, in the order given."""
    return {key.name: key for key in keys}
