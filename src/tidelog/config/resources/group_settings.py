"""The settings of one group: its own values over the broker's defaults over Kafka's.

==================================  ==================================================================================
default of a key                    the broker's ``group.KEY``, which a description lists as a synonym
a number                            between the broker's ``group.KIND.min.NAME`` and ``group.KIND.max.NAME``
session timeout                     longer than the heartbeat interval of the same kind
assignor of a streams group         one of the broker's ``group.streams.assignors``, by default the first
dead-letter queue topic             a name that does not begin with ``__``
==================================  ==================================================================================

Only the group's own settings are checked against the bounds. If the broker's bounds change later, the group uses the
nearest allowed value (``within_bounds``), while its description still shows the set value. A ``GroupSettings`` is
immutable. Source: Kafka's ``GroupConfig.validate`` and ``GroupConfig.evaluate``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.checks import number
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.value_text import Value
from tidelog.model import ConfigError

_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
    "streams.task.offset.interval.ms",
    "streams.num.warmup.replicas",
)
"""The keys in the sequence of Kafka's checks."""

_KINDS = ("consumer", "share", "streams")
_TAGS = "streams.rack.aware.assignment.tags"
_ASSIGNOR = "streams.assignor.name"
_ASSIGNORS = "group.streams.assignors"
_QUEUE = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """``values`` has every setting of a group. ``overrides`` are the group's own texts."""

    values: Mapping[str, Value | None]
    overrides: Mapping[str, str]

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """Raise ConfigError for an unknown key, an invalid value, or a value that the broker does not allow."""
        settings = cls.described(overrides, broker)
        _check({name: settings.values[name] for name in overrides}, broker)
        return settings

    @classmethod
    def described(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """Parse like ``of``, but ignore the broker's bounds, which may have changed since."""
        for name in overrides:
            if name not in GROUP_KEYS:
                raise ConfigError(f"Unknown group config name: {name}")
        _check_tags(overrides.get(_TAGS, ""))
        values: dict[str, Value | None] = {name: key.default for name, key in GROUP_KEYS.items()}
        values.update(_defaults(broker))
        values.update((name, GROUP_KEYS[name].parse(text)) for name, text in overrides.items())
        return cls(values=values, overrides=dict(overrides))

    def within_bounds(self, broker: BrokerConfig) -> Self:
        """Return the settings with each overridden number moved to the nearest value that the broker allows."""
        names = [name for name in _BOUNDED if name in self.overrides]
        bounded = {name: _bounds(name, broker).nearest(self.number(name)) for name in names}
        return replace(self, values={**self.values, **bounded})

    def number(self, key: str) -> int:
        """Return the value of an INT key."""
        return number(self.values, key)


class _Bounds(NamedTuple):
    """Bounds, both included. None sets no bound."""

    low: int | None
    high: int | None

    def nearest(self, value: int) -> int:
        if self.low is not None and value < self.low:
            return self.low
        return self.high if self.high is not None and value > self.high else value

    @property
    def text(self) -> str:
        if self.low is None:
            return f"must be less than or equal to {self.high}"
        if self.high is None:
            return f"must be greater than or equal to {self.low}"
        return f"must be in the range {self.low} to {self.high} inclusive."


def _bounds(name: str, broker: BrokerConfig) -> _Bounds:
    """Return the broker's bounds, in keys such as ``group.consumer.min.session.timeout.ms``."""
    kind, rest = name.split(".", 1)
    keys = (f"group.{kind}.{word}.{rest.removeprefix('num.')}" for word in ("min", "max"))
    return _Bounds(*(broker.number(key) if key in BROKER_KEYS else None for key in keys))


def broker_key_of(name: str) -> str | None:
    """Return the broker's key for the default of a group's key, or None."""
    key = _ASSIGNORS if name == _ASSIGNOR else f"group.{name}"
    return key if key in BROKER_KEYS else None


def _defaults(broker: BrokerConfig) -> Iterator[tuple[str, Value]]:
    for name in GROUP_KEYS:
        key = broker_key_of(name)
        value = None if key is None else broker.shown(key)
        if name == _ASSIGNOR:
            yield from ((name, assignor) for assignor in broker.texts(_ASSIGNORS)[:1])
        elif value is not None:
            yield name, value


def _check_tags(text: str) -> None:
    tags = [tag.strip() for tag in text.split(",")]
    if len(set(tags)) < len(tags):
        raise ConfigError(f"{_TAGS} must not contain duplicate tag keys.")


def _check(values: Mapping[str, Value | None], broker: BrokerConfig) -> None:
    """Raise ConfigError if the broker does not allow the overrides. ``values`` has only these."""
    for name in _BOUNDED:
        bounds = _bounds(name, broker)
        if name in values and bounds.nearest(number(values, name)) != number(values, name):
            raise ConfigError(f"{name} {bounds.text}")
    assignors = broker.texts(_ASSIGNORS)
    if _ASSIGNOR in values and values[_ASSIGNOR] not in assignors:
        raise ConfigError(
            f"{_ASSIGNOR} '{values[_ASSIGNOR]}' is not a registered task assignor. Registered assignors are:"
            f" [{', '.join(assignors)}]."
        )
    for kind in _KINDS:
        _check_session(kind, values, broker)
    if str(values.get(_QUEUE) or "").startswith("__"):
        raise ConfigError(f"{_QUEUE}: DLQ topic name must not start with '__'")


def _check_session(kind: str, values: Mapping[str, Value | None], broker: BrokerConfig) -> None:
    """Raise ConfigError if a session timeout is not longer than the heartbeat interval and the group sets either."""
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    if session not in values and heartbeat not in values:
        return
    timeout_ms, interval_ms = (
        number(values, name) if name in values else broker.number(f"group.{name}") for name in (session, heartbeat)
    )
    if timeout_ms <= interval_ms:
        raise ConfigError(f"{session} must be greater than {heartbeat}")
