"""The endpoints of a node: ``listeners`` to bind, and ``advertised.listeners`` for clients.

Each endpoint has a name, and ``listener.security.protocol.map`` gives its protocol. ``controller.listener.names`` names
the controller's listeners. A broker alone has none of them, and a controller alone has no others.
Source: Kafka's ``SocketServerConfigs.listenerListToEndPoints`` and ``KafkaConfig``.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.security.security_protocol import SecurityProtocol

_LISTENER = re.compile(r"(?P<name>[^:]+)://(?:\[(?P<six>[0-9A-Fa-f:.%]*)\]|(?P<host>[^\[\]:]*)):(?P<port>-?\d+)")
_PROTOCOL_MAP = "listener.security.protocol.map"
_ANY = ("", "0.0.0.0", "::")
_BOTH = ("broker", "controller")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerEndpoint:
    name: str
    """The listener's name in upper case."""
    host: str
    """An empty host stands for every address of the machine."""
    port: int
    """The port, or 0 if the operating system chooses it."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoints:
    listeners: tuple[ListenerEndpoint, ...]
    advertised: tuple[ListenerEndpoint, ...]
    """The advertised endpoints in the order of the listeners. Port 0 stands for the listener's own port."""
    controllers: tuple[ListenerEndpoint, ...]
    """The controller's listeners."""

    def advertised_at(self, ports: dict[str, int]) -> tuple[ListenerEndpoint, ...]:
        """Return the endpoints for clients. ``ports`` has the bound ports by listener name."""
        return tuple(replace(one, port=one.port or ports[one.name]) for one in self.advertised)


def endpoints_of(config: BrokerConfig) -> BrokerEndpoints:
    """Return the endpoints of a config. Raise ConfigError with every mistake."""
    mistakes: list[str] = []
    listeners = _parsed("listeners", config, mistakes)
    controllers = {name.upper() for name in config.texts("controller.listener.names")}
    advertised = _parsed("advertised.listeners", config, mistakes)
    own = [one for one in listeners if one.name not in controllers]
    of_controller = [one for one in listeners if one.name in controllers]
    if not mistakes:
        mistakes += _role_mistakes(config, own, of_controller)
    own = _with_protocols(config, own, mistakes)
    of_controller = _with_protocols(config, of_controller, mistakes, default=_controllers_default(config))
    if is_broker(config):
        mistakes += _inter_broker_mistakes(config, own)
    mistakes += _advertised_mistakes(listeners, advertised)
    mistakes += _early_mistakes(config, listeners)
    if mistakes:
        raise ConfigError("; ".join(mistakes))
    by_name = {one.name: one for one in advertised}
    return BrokerEndpoints(
        listeners=tuple(own),
        advertised=tuple(
            replace(by_name.get(one.name) or replace(one, host=reachable(one.host)), protocol=one.protocol)
            for one in own
        ),
        controllers=tuple(of_controller),
    )


def _role_mistakes(
    config: BrokerConfig, own: list[ListenerEndpoint], of_controller: list[ListenerEndpoint]
) -> Iterator[str]:
    """Yield the mistakes of listeners that do not go with the node's roles."""
    if is_broker(config) and not own:
        yield "listeners: a broker needs a listener that is not the controller's"
    names = ", ".join(one.name for one in (own if not is_broker(config) else of_controller))
    if not is_broker(config) and (own or not of_controller):
        yield (
            "listeners: a node with process.roles=controller has the listeners of controller.listener.names alone"
            + (f", so {names} must not be there" if names else ", and needs one of them")
        )
    if not is_controller(config) and of_controller:
        yield f"listeners: {names} is the controller's, which a node without the controller role does not open"


def is_broker(config: BrokerConfig) -> bool:
    """Return True if the node has the broker role, as without any role."""
    return "broker" in (config.texts("process.roles") or _BOTH)


def is_controller(config: BrokerConfig) -> bool:
    """Return True if the node has the role of a KRaft controller, as without any role and ZooKeeper."""
    return not config.uses_zookeeper and "controller" in (config.texts("process.roles") or _BOTH)


def inter_broker_listener(config: BrokerConfig) -> str:
    """Return the name of the listener that brokers use among each other."""
    return str(config["inter.broker.listener.name"] or config["security.inter.broker.protocol"]).upper()


def protocol_of(config: BrokerConfig, listener: str) -> SecurityProtocol:
    """Return the protocol of a listener, which may be another node's. Raise ConfigError without a known one.

    A controller's listener is PLAINTEXT if the map of protocols is not set, as in Kafka.
    """
    protocols = _protocols(config)
    known = SecurityProtocol.__members__
    is_controllers = listener in (name.upper() for name in config.texts("controller.listener.names"))
    default = _controllers_default(config) if is_controllers else None
    found = known.get(protocols.get(listener, default or ""))
    if found is None:
        raise ConfigError(f"{_PROTOCOL_MAP}: {listener} has no known protocol; use {', '.join(known)}")
    return found


def _controllers_default(config: BrokerConfig) -> str | None:
    """Return the protocol of a controller's listener that is not in the map, or None if it must be there."""
    return None if _PROTOCOL_MAP in config.settings else "PLAINTEXT"


def _protocols(config: BrokerConfig) -> dict[str, str]:
    pairs = (pair.partition(":") for pair in str(config[_PROTOCOL_MAP] or "").split(","))
    return {name.strip().upper(): protocol.strip().upper() for name, _, protocol in pairs}


def _parsed(key: str, config: BrokerConfig, mistakes: list[str]) -> list[ListenerEndpoint]:
    """Return the endpoints that ``key`` lists; none if it is not set."""
    found: list[ListenerEndpoint] = []
    for part in config.texts(key):
        match = _LISTENER.fullmatch(part)
        port = int(match["port"]) if match else -1
        if match is None or not 0 <= port <= 65535:
            mistakes.append(f"{key}: {part!r} is not NAME://host:port")
            continue
        found.append(ListenerEndpoint(name=match["name"].upper(), host=match["six"] or match["host"] or "", port=port))
    names = [one.name for one in found]
    mistakes += [f"{key}: there are several listeners named {name}" for name in names if names.count(name) > 1]
    return found


def _with_protocols(
    config: BrokerConfig, listeners: list[ListenerEndpoint], mistakes: list[str], default: str | None = None
) -> list[ListenerEndpoint]:
    protocols, known = _protocols(config), SecurityProtocol.__members__
    for one in listeners:
        protocol = protocols.setdefault(one.name, default) if default else protocols.get(one.name)
        if protocol is None:
            mistakes.append(f"listeners: {one.name} is not in listener.security.protocol.map")
        elif protocol not in known:
            mistakes.append(
                f"listener.security.protocol.map: {one.name} has unknown protocol {protocol}; use {', '.join(known)}"
            )
    return [replace(one, protocol=known.get(protocols.get(one.name, ""), one.protocol)) for one in listeners]


def _inter_broker_mistakes(config: BrokerConfig, listeners: list[ListenerEndpoint]) -> Iterator[str]:
    """Yield mistakes only of keys that are set: Kafka's default is wrong for a broker without a PLAINTEXT listener."""
    name, protocol = ("inter.broker.listener.name", "security.inter.broker.protocol")
    if name in config.settings and protocol in config.settings:
        yield f"{name} and {protocol} must not both be set"
    for key in (name, protocol):
        if key in config.settings and str(config[key]).upper() not in {one.name for one in listeners}:
            yield f"{key}: {config[key]} is not one of the listeners"


def _advertised_mistakes(listeners: list[ListenerEndpoint], advertised: list[ListenerEndpoint]) -> Iterator[str]:
    names = {one.name for one in listeners}
    for one in advertised:
        if one.name not in names:
            yield f"advertised.listeners: {one.name} is not one of the listeners"
        if one.host in _ANY[1:]:
            yield f"advertised.listeners: {one.host} is not an address that clients can connect to"


def _early_mistakes(config: BrokerConfig, listeners: list[ListenerEndpoint]) -> Iterator[str]:
    """Yield the unknown names in ``early.start.listeners``, as in Kafka. Known ones open like all others."""
    names = {one.name for one in listeners}
    for name in config.texts("early.start.listeners"):
        if name not in names:
            yield f"early.start.listeners: {name} is not one of the listeners"


def reachable(host: str) -> str:
    """Return a host name for other machines. Kafka asks Java for the canonical name of the local host."""
    return host if host not in _ANY else socket.getfqdn()
