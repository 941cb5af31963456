"""Limits on the rate of new connections: of the broker, of a listener, and of an IP address. Pure.

==================================  ===================================================================================
limit exceeded                      effect
==================================  ===================================================================================
``max.connection.creation.rate``    the connection waits, and the listener accepts no other meanwhile; at most for one
of the broker, or of the listener   quota window (``quota.window.size.seconds``)
``connection_creation_rate`` of an  the connection is not served and not counted; it is closed once the address may
address                             have another, so that an immediate retry gains nothing
==================================  ===================================================================================

A connection counts when it is accepted, so it waits itself if it exceeds the limit. The
inter-broker listener is exempt from the broker's limit if there are other listeners. The caller passes the time. A
crash loses the counts: the rates start again at 0. Source: Kafka's ``ConnectionQuotas`` (KIP-402, KIP-612).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.runtime.metrics.sampled.sampled_rate import SampledRate

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
NO_LIMIT: Final = 2**31 - 1

_BROKER = ""
_MANY_ADDRESSES = 1000
"""Addresses without recent connections are removed if there are at least this many."""

AddressQuotas = Mapping[str | None, float]
"""Connections per second by address. The key None is the default for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """Limits in connections per second."""

    of_broker: int = NO_LIMIT
    of_listeners: Mapping[str, int] = field(default_factory=dict)
    """The limits by listener name."""
    windows: int = 11
    window_ms: int = 1000

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        return cls(
            of_broker=config.number("max.connection.creation.rate"),
            of_listeners=listeners_numbers(config, "max.connection.creation.rate"),
            windows=config.number("quota.window.num"),
            window_ms=config.number("quota.window.size.seconds") * 1000,
        )


def listeners_numbers(config: BrokerConfig, key: str) -> dict[str, int]:
    """Return the values of ``listener.name.NAME.KEY`` by the listener's name in upper case."""
    found = {}
    for name, setting in config.settings.items():
        listener = name.removeprefix("listener.name.").removesuffix(f".{key}")
        if name == f"listener.name.{listener}.{key}":
            value = BROKER_KEYS[key].parse(setting.text)
            assert isinstance(value, int), key
            found[listener.upper()] = value
    return found


class ConnectionRates:
    """The rates of new connections. ``now_ms`` must not decrease from call to call."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._quotas: AddressQuotas = {}
        self._rates: dict[str, SampledRate] = {}
        """The rates of the broker and of the listeners."""
        self._of_addresses: dict[str, SampledRate] = {}
        self._swept_ms: int | None = None

    def change(self, limits: RateLimits) -> None:
        """Set new limits. A connection that waits already keeps its wait."""
        self._limits = limits

    def change_quotas(self, quotas: AddressQuotas) -> None:
        """Replace the quotas of addresses. Connections counted before stay counted."""
        self._quotas = dict(quotas)

    def count(self, listener: str, now_ms: int, *, is_protected: bool = False) -> int:
        """Count a new connection and return how many ms it waits. If ``is_protected``, the broker's limit does not
        apply to it."""
        waits = [self._counted(listener, self._limits.of_listeners.get(listener, NO_LIMIT), now_ms)]
        if not is_protected:
            waits.append(self._counted(_BROKER, self._limits.of_broker, now_ms))
        return min(max(waits), self._limits.window_ms)

    def count_address(self, listener: str, address: str, now_ms: int, *, is_protected: bool = False) -> int:
        """Count the address of the connection that was just counted. Return 0 if it may be served. Otherwise return how
        many ms it is kept unserved, and remove it from all counts."""
        limit = self._quotas.get(address, self._quotas.get(None))
        if limit is None:
            return 0
        rate = self._of_address(address, now_ms)
        rate.record(1, now_ms)
        wait_ms = rate.wait_ms(limit, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
            for name in (listener,) if is_protected else (listener, _BROKER):
                self._rate(name).record(-1, now_ms)
        return min(wait_ms, self._limits.window_ms)

    def _counted(self, name: str, limit: int, now_ms: int) -> int:
        rate = self._rate(name)
        rate.record(1, now_ms)
        return rate.wait_ms(limit, now_ms) if limit else self._limits.window_ms

    def _rate(self, name: str) -> SampledRate:
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = self._made()
        return rate

    def _of_address(self, address: str, now_ms: int) -> SampledRate:
        rate = self._of_addresses.get(address)
        if rate is None:
            if len(self._of_addresses) >= _MANY_ADDRESSES:
                self._remove_idle(now_ms)
            rate = self._of_addresses[address] = self._made()
        return rate

    def _remove_idle(self, now_ms: int) -> None:
        """Remove idle addresses. It runs at most once in all windows' time, or each new address would scan all
        others."""
        if self._swept_ms is None or now_ms - self._swept_ms >= self._limits.windows * self._limits.window_ms:
            self._swept_ms = now_ms
            for name, rate in list(self._of_addresses.items()):
                rate.per_second(now_ms)
                if rate.is_empty:
                    del self._of_addresses[name]

    def _made(self) -> SampledRate:
        return SampledRate(windows=self._limits.windows, window_ms=self._limits.window_ms)
