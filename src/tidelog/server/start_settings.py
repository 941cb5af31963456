"""The settings that a node starts with, and the validation of its configuration.

Without a file, the defaults below stand in for one, for a single node. A file is read as Kafka reads it, so keys that
Kafka requires must be in it. A feature that this node lacks is refused, not ignored: several voters, Kerberos. The
error names every mistake at once. Source: the properties file that Kafka 4.1 comes with; ``KafkaConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.authorization.authorizer import AuthorizerSettings
from tidelog.server.fetching.replica_selector import selects_by_rack
from tidelog.server.network.endpoint import BrokerEndpoints, endpoints_of, is_controller
from tidelog.server.network.limits import NetworkLimits
from tidelog.server.security.listener_security import ListenerSecurity

EMBEDDED_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "tidelog-data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""Kafka's own settings for a single node, except for the log directory and the address, which only this machine can
reach."""

_CONTROLLER_PORT = 9093
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
"""Kafka's default."""
_QUORUM_KEYS = frozenset({"controller.quorum.voters", "controller.quorum.bootstrap.servers"})
_BETWEEN_BROKERS = frozenset({"inter.broker.listener.name", "security.inter.broker.protocol"})

Checked = TypeVar("Checked")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    node_id: int
    has_controller: bool
    """False if the controllers are other nodes."""
    endpoints: BrokerEndpoints
    limits: NetworkLimits
    security: Mapping[str, ListenerSecurity]
    """The security by listener name."""
    authorizer: AuthorizerSettings | None
    """None allows everything to every client."""

    @classmethod
    def of(cls, config: BrokerConfig) -> StartSettings:
        """Return the settings of a config. Raise ConfigError with every mistake."""
        mistakes = list(_role_mistakes(config))
        endpoints = _checked(lambda: endpoints_of(config), mistakes)
        limits = _checked(lambda: NetworkLimits.of(config).with_resolved_hosts(), mistakes)
        security: dict[str, ListenerSecurity] = {}
        for one in (*endpoints.listeners, *endpoints.controllers) if endpoints is not None else ():
            found = _checked(partial(ListenerSecurity.of, config, one.name, one.protocol), mistakes)
            if found is not None:
                security[one.name] = found
        authorizer = _checked(lambda: AuthorizerSettings.of(config), mistakes)
        _checked(lambda: selects_by_rack(config), mistakes)
        if mistakes or endpoints is None or limits is None:
            raise ConfigError("; ".join(mistakes))
        assert config.node_id is not None, "node.id is not among what is missing"
        return cls(
            node_id=config.node_id,
            has_controller=is_controller(config),
            endpoints=endpoints,
            limits=limits,
            security=security,
            authorizer=authorizer,
        )


def opens_controller(path: Path | None, overrides: Mapping[str, str]) -> bool:
    """Return True if the user has listed the controller's listener.

    ``complete_settings`` adds it for Kafka's sake alone. The user has not secured that address, so it must stay closed.
    """
    if path is not None:
        return True
    names = overrides.get("controller.listener.names", EMBEDDED_SETTINGS["controller.listener.names"])
    listed = {_listener_name(entry) for entry in overrides.get("listeners", "").split(",")}
    return any(name.strip().upper() in listed for name in names.split(","))


def load_start_config(path: Path | None, overrides: Mapping[str, str]) -> BrokerConfig:
    """Return the config of a file or of the embedded defaults, under ``overrides``.

    Raise ConfigError with every mistake.
    """
    return BrokerConfig.load(path, overrides if path is not None else complete_settings(overrides))


def complete_settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the embedded defaults under ``overrides``, and the further keys that Kafka requires.

    These are the controller's listener and its protocol, the quorum's address, and the listener between brokers.
    """
    settings = {**EMBEDDED_SETTINGS, **overrides}
    controller = settings["controller.listener.names"].split(",")[0].strip().upper()
    listeners = [entry.strip() for entry in settings["listeners"].split(",") if entry.strip()]
    own = [entry for entry in listeners if _listener_name(entry) != controller]
    address = next((entry.partition("://")[2] for entry in listeners if entry not in own), "")
    if not address:
        taken = {entry.rpartition(":")[2] for entry in listeners}
        address = next(f"localhost:{port}" for port in range(_CONTROLLER_PORT, 1 << 16) if str(port) not in taken)
        settings["listeners"] = ",".join([*listeners, f"{controller}://{address}"])
    protocols = settings.get("listener.security.protocol.map", _PROTOCOLS)
    if controller not in (pair.partition(":")[0].strip().upper() for pair in protocols.split(",")):
        settings["listener.security.protocol.map"] = f"{controller}:PLAINTEXT,{protocols}"
    if not _QUORUM_KEYS & settings.keys():
        settings["controller.quorum.bootstrap.servers"] = address
    if own and not _BETWEEN_BROKERS & settings.keys():
        settings["inter.broker.listener.name"] = _listener_name(own[0])
    return settings


def _listener_name(entry: str) -> str:
    return entry.partition("://")[0].strip().upper()


def _role_mistakes(config: BrokerConfig) -> Iterator[str]:
    for name in config.missing:
        yield f"{name} has to be set"
    if "zookeeper.connect" in config.settings:
        yield "zookeeper.connect: not supported, because this broker keeps the cluster metadata itself; remove the key"
    voters = config.texts("controller.quorum.voters")
    if not is_controller(config):
        yield from _observer_mistakes(config)
    elif len(voters) > 1:
        yield f"controller.quorum.voters: this broker is its only controller, but {len(voters)} voters are listed"
    if config.flag("remote.log.storage.system.enable"):
        yield (
            "remote.log.storage.system.enable: tiered storage is not supported, so records in remote storage"
            " would be missing"
        )


def _observer_mistakes(config: BrokerConfig) -> Iterator[str]:
    """Yield the mistakes of a broker whose controllers are other nodes, as Kafka finds them."""
    if config["process.roles"] is None:
        return
    voters = config.texts("controller.quorum.voters")
    if not voters and not config.texts("controller.quorum.bootstrap.servers"):
        yield "controller.quorum.bootstrap.servers has to be set: a broker alone needs controllers"
    if str(config.node_id) in (voter.partition("@")[0] for voter in voters):
        yield f"controller.quorum.voters: node.id {config.node_id} is a voter, but this node is a broker alone"
    names = {name.upper() for name in config.texts("controller.listener.names")}
    for entry in config.texts("listeners"):
        if _listener_name(entry) in names:
            yield f"controller.listener.names: a broker alone must not have {_listener_name(entry)} in listeners"


def _checked(make: Callable[[], Checked], mistakes: list[str]) -> Checked | None:
    try:
        return make()
    except ConfigError as error:
        mistakes.append(error.message)
        return None
