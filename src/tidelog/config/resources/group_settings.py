"""The settings of one group: what was set for it, over the broker's defaults, over Kafka's. An immutable value.

==================================  ==================================================================================
a key with a broker's key           ``group.`` before it: its default, and what a description names as its synonym
a number                            between the broker's ``group.KIND.min.NAME`` and ``group.KIND.max.NAME``
standby replicas                    at most ``group.streams.max.standby.replicas``
session time-out                    longer than the heartbeat interval of the same kind
==================================  ==================================================================================

Called by: whoever changes settings (``of`` refuses what Kafka refuses), the group coordinator.
Source: Kafka's ``GroupConfig.validate``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.checks import number
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.value_text import Value
from tidelog.model import ConfigError

_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
)
"""In the order in which Kafka looks at them."""

_KINDS = ("consumer", "share", "streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """``values``: every setting of a group; ``overrides``: as they were set."""

    values: Mapping[str, Value | None]
    overrides: Mapping[str, str]

    @classmethod
    def of(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """ConfigError for an unknown key, a text of another type, and values the broker's bounds do not allow."""
        settings = cls.described(overrides, broker)
        _check(
            {name: settings.values[name] if name in overrides else GROUP_KEYS[name].default for name in GROUP_KEYS},
            broker,
        )
        return settings

    @classmethod
    def described(cls, overrides: Mapping[str, str], broker: BrokerConfig) -> Self:
        """As ``of``, without a look at the broker's bounds: they may have changed since."""
        for name in overrides:
            if name not in GROUP_KEYS:
                raise ConfigError(f"Unknown group config name: {name}")
        values: dict[str, Value | None] = {name: key.default for name, key in GROUP_KEYS.items()}
        values.update(_defaults(broker))
        values.update((name, GROUP_KEYS[name].parse(text)) for name, text in overrides.items())
        return cls(values=values, overrides=dict(overrides))

    def number(self, key: str) -> int:
        """The value of a key whose type is INT."""
        return number(self.values, key)


def _defaults(broker: BrokerConfig) -> Iterator[tuple[str, Value]]:
    for name in GROUP_KEYS:
        value = broker[f"group.{name}"] if f"group.{name}" in BROKER_KEYS else None
        if value is not None:
            yield name, value


def _check(values: Mapping[str, Value | None], broker: BrokerConfig) -> None:
    for name in _BOUNDED:
        low, high = _bound(name, "min"), _bound(name, "max")
        if low in BROKER_KEYS and number(values, name) < broker.number(low):
            raise ConfigError(f"{name} must be greater than or equal to {low}")
        if number(values, name) > broker.number(high):
            raise ConfigError(f"{name} must be less than or equal to {high}")
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if number(values, session) <= number(values, heartbeat):
            raise ConfigError(f"{session} must be greater than {heartbeat}")


def _bound(name: str, word: str) -> str:
    """``group.consumer.min.session.timeout.ms`` of ``consumer.session.timeout.ms``."""
    kind, rest = name.split(".", 1)
    return f"group.{kind}.{word}.{rest.removeprefix('num.')}"
