"""Limits on the number of connections and on the bytes of requests in memory.

============================  =========================================================================================
limit reached                 effect
============================  =========================================================================================
``max.connections``           the broker accepts no connection until one is closed; a listener may have its own limit.
                              The inter-broker listener is exempt from the broker's if there are other listeners
``max.connections.per.ip``    the new connection is closed; ``max.connections.per.ip.overrides`` has exceptions
``queued.max.request.bytes``  no new request is read; requests that are partly read are read to their end
============================  =========================================================================================

``ConnectionRates`` limits how fast connections come. Source: Kafka's ``ConnectionQuotas`` and ``SimpleMemoryPool``.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.network.connection_rates import NO_LIMIT, ConnectionRates, RateLimits, listeners_numbers
from tidelog.server.network.endpoint import inter_broker_listener

_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+")
_COUNT = re.compile(r"\s*[0-9]{1,10}\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """The values of the Kafka keys that the fields are named after. Sizes are in bytes."""

    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """Limits by host name or address. Connections are counted by address: see ``with_resolved_hosts``."""
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """Limits by listener name."""
    inter_broker_listener: str = "PLAINTEXT"
    rates: RateLimits = field(default_factory=RateLimits)
    connections_max_idle_ms: int
    """The idle timeout. With 0 or less, idle connections stay open."""
    queued_max_request_bytes: int
    """The most request bytes in memory. A negative value means no limit."""
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    """The buffer size; -1 is the operating system's default. The next field has the same rule."""
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Return the limits of a config. Raise ConfigError if the overrides are not pairs of host and number. Host
        names are not resolved: a client without permission to change configs may have them validated too."""
        overrides = str(config["max.connections.per.ip.overrides"] or "")
        return cls(
            max_connections=config.number("max.connections"),
            max_connections_per_ip=config.number("max.connections.per.ip"),
            max_connections_per_ip_overrides=parse_overrides(overrides),
            max_connections_of_listeners=listeners_numbers(config, "max.connections"),
            inter_broker_listener=inter_broker_listener(config),
            rates=RateLimits.of(config),
            connections_max_idle_ms=config.number("connections.max.idle.ms"),
            queued_max_request_bytes=config.number("queued.max.request.bytes"),
            socket_request_max_bytes=config.number("socket.request.max.bytes"),
            socket_send_buffer_bytes=config.number("socket.send.buffer.bytes"),
            socket_receive_buffer_bytes=config.number("socket.receive.buffer.bytes"),
            socket_listen_backlog_size=config.number("socket.listen.backlog.size"),
        )

    def with_resolved_hosts(self) -> Self:
        """Return the limits with the overrides' host names resolved to addresses; it may block. Raise ConfigError if a
        host has no address."""
        overrides: dict[str, int] = {}
        for host, limit in self.max_connections_per_ip_overrides.items():
            try:
                addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
            except (ValueError, OSError) as error:
                raise ConfigError(f"max.connections.per.ip.overrides: {host!r} has no address: {error}") from None
            overrides |= dict.fromkeys(addresses, limit)
        return replace(self, max_connections_per_ip_overrides=overrides)


def parse_overrides(text: str) -> dict[str, int]:
    """Parse ``host:count,…`` into counts by host. Raise ConfigError for another form."""
    overrides: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        host = host.strip("[] ")
        if _HOST.fullmatch(host) is None or _COUNT.fullmatch(count) is None:
            raise ConfigError(f"max.connections.per.ip.overrides: {pair!r} is not host:count")
        overrides[host] = int(count)
    return overrides


class ConnectionCounts:
    """The number of connections by listener and by address, and the listeners that wait for one to close."""

    def __init__(self, limits: NetworkLimits) -> None:
        self.limits = limits
        self.rates = ConnectionRates(limits.rates)
        self.total = 0
        self._by_listener: dict[str, int] = {}
        self._by_address: Counter[str] = Counter()
        self._waiting: list[Callable[[], None]] = []

    def change(self, limits: NetworkLimits) -> None:
        """Set new limits at any time. Existing connections stay open."""
        self.limits = limits
        self.rates.change(limits.rates)
        self._notify_waiting()

    def add_listener(self, name: str) -> None:
        """Add a listener without connections; idempotent."""
        self._by_listener.setdefault(name, 0)

    def call_when_room(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when there may be room. It must check ``is_full`` again."""
        self._waiting.append(callback)

    def is_full(self, listener: str) -> bool:
        """Return True if ``listener`` may not accept a connection."""
        if self._by_listener[listener] >= self.limits.max_connections_of_listeners.get(listener, NO_LIMIT):
            return True
        return self.total >= self.limits.max_connections and not self.is_protected(listener)

    def is_protected(self, listener: str) -> bool:
        """Return True if the broker's limits do not apply to the listener. Otherwise clients could use up the limit and
        lock out the other brokers."""
        return listener == self.limits.inter_broker_listener and len(self._by_listener) > 1

    def limit_of(self, address: str) -> int:
        return self.limits.max_connections_per_ip_overrides.get(address, self.limits.max_connections_per_ip)

    def add(self, listener: str, address: str) -> bool:
        """Count a connection. Return False, and count nothing, if the address has its maximum already."""
        if self._by_address[address] >= self.limit_of(address):
            if not self._by_address[address]:
                del self._by_address[address]
            return False
        self._by_address[address] += 1
        self._by_listener[listener] += 1
        self.total += 1
        return True

    def remove(self, listener: str, address: str) -> None:
        self.total -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._notify_waiting()

    def _notify_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
