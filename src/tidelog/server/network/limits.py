"""How many connections there may be, in all, of a listener and of one address, and how many bytes of requests.

============================  ===========================================================================
limit reached                 what happens
============================  ===========================================================================
``max.connections``           nothing more is accepted until a connection is closed; of a listener, by the listener.
                              The one between brokers is not held to the broker's, where there are others
``max.connections.per.ip``    the new connection is closed; ``max.connections.per.ip.overrides`` has exceptions
``queued.max.request.bytes``  no new request is read; those under way are read to their end
============================  ===========================================================================

How fast they may come is a matter of ``ConnectionRates``.
Called by: Listener. Source: Kafka's ``ConnectionQuotas`` and ``SimpleMemoryPool``.
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

_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+")
_COUNT = re.compile(r"\s*[0-9]{1,10}\s*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Sizes in bytes; Kafka's keys, whose names they have."""

    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    """By host: its name or its address. Counting goes by addresses: ``looked_up``."""
    max_connections_of_listeners: Mapping[str, int] = field(default_factory=dict)
    """By the listener's name."""
    inter_broker_listener: str = "PLAINTEXT"
    rates: RateLimits = field(default_factory=RateLimits)
    connections_max_idle_ms: int
    """0 and below: no connection is closed for being idle."""
    queued_max_request_bytes: int
    """Below 0: no limit."""
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    """-1: the operating system's; so for the next."""
    socket_receive_buffer_bytes: int
    socket_listen_backlog_size: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """ConfigError for overrides that are no pairs of hosts and numbers. Hosts are not looked up: who may change
        nothing can have settings checked, too."""
        overrides = str(config["max.connections.per.ip.overrides"] or "")
        between = config["inter.broker.listener.name"]
        return cls(
            max_connections=config.number("max.connections"),
            max_connections_per_ip=config.number("max.connections.per.ip"),
            max_connections_per_ip_overrides=parse_overrides(overrides),
            max_connections_of_listeners=listeners_numbers(config, "max.connections"),
            inter_broker_listener=str(between or config["security.inter.broker.protocol"]).upper(),
            rates=RateLimits.of(config),
            connections_max_idle_ms=config.number("connections.max.idle.ms"),
            queued_max_request_bytes=config.number("queued.max.request.bytes"),
            socket_request_max_bytes=config.number("socket.request.max.bytes"),
            socket_send_buffer_bytes=config.number("socket.send.buffer.bytes"),
            socket_receive_buffer_bytes=config.number("socket.receive.buffer.bytes"),
            socket_listen_backlog_size=config.number("socket.listen.backlog.size"),
        )

    def looked_up(self) -> Self:
        """With the addresses that the hosts have now, which the system is asked for: it may take its time. ConfigError
        for a host that has none."""
        overrides: dict[str, int] = {}
        for host, limit in self.max_connections_per_ip_overrides.items():
            try:
                addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
            except (ValueError, OSError) as error:
                raise ConfigError(f"max.connections.per.ip.overrides: {host!r} has no address: {error}") from None
            overrides |= dict.fromkeys(addresses, limit)
        return replace(self, max_connections_per_ip_overrides=overrides)


def parse_overrides(text: str) -> dict[str, int]:
    """``host:count,…`` by host."""
    overrides: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        host = host.strip("[] ")
        if _HOST.fullmatch(host) is None or _COUNT.fullmatch(count) is None:
            raise ConfigError(f"max.connections.per.ip.overrides: {pair!r} is no host:count")
        overrides[host] = int(count)
    return overrides


class ConnectionCounts:
    """The connections there are, by listener and address, and the listeners that wait until there are fewer."""

    def __init__(self, limits: NetworkLimits) -> None:
        self.limits = limits
        self.rates = ConnectionRates(limits.rates)
        self.total = 0
        self._by_listener: dict[str, int] = {}
        self._by_address: Counter[str] = Counter()
        self._waiting: list[Callable[[], None]] = []

    def change(self, limits: NetworkLimits) -> None:
        """At any time; who is connected stays."""
        self.limits = limits
        self.rates.change(limits.rates)
        self._tell_waiting()

    def add_listener(self, name: str) -> None:
        """Idempotent."""
        self._by_listener.setdefault(name, 0)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call it, once, when there may be room; ``is_full`` knows."""
        self._waiting.append(callback)

    def is_full(self, listener: str) -> bool:
        """Whether ``listener`` may have no more."""
        if self._by_listener[listener] >= self.limits.max_connections_of_listeners.get(listener, NO_LIMIT):
            return True
        return self.total >= self.limits.max_connections and not self.is_protected(listener)

    def is_protected(self, listener: str) -> bool:
        """Whether the broker's own limits do not hold for it: brokers would find no way past clients."""
        return listener == self.limits.inter_broker_listener and len(self._by_listener) > 1

    def limit_of(self, address: str) -> int:
        return self.limits.max_connections_per_ip_overrides.get(address, self.limits.max_connections_per_ip)

    def add(self, listener: str, address: str) -> bool:
        """False, and nothing is counted: the address has as many as it may."""
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
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
