"""The settings that a node starts with, and the validation of its configuration.

Without a file, the defaults below stand in for one, for a single node. A file is read as Kafka reads it, so keys that
Kafka requires must be in it. A feature that this node lacks is refused, not ignored: several voters, Kerberos. The
error names every mistake at once. A file with ``zookeeper.connect`` and without ``process.roles`` is read as Kafka 3.9
reads it. Source: the properties file that Kafka 4.1 comes with; ``KafkaConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.authorization.authorizer import AuthorizerSettings
from tidelog.server.fetching.replica_selector import selects_by_rack
from tidelog.server.network.endpoint import BrokerEndpoints, endpoints_of, is_controller
from tidelog.server.network.limits import NetworkLimits
from tidelog.server.security.listener_security import ListenerSecurity

if TYPE_CHECKING:
    from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings

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

_OF_A_CONTROLLER = frozenset({"node.id", "process.roles", "controller.listener.names"})
"""The embedded settings that a broker with ZooKeeper does not have."""
_CONTROLLER_PORT = 9093
_PROTOCOLS = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
"""Kafka's default."""
_QUORUM_KEYS = frozenset({"controller.quorum.voters", "controller.quorum.bootstrap.servers"})
_BETWEEN_BROKERS = frozenset({"inter.broker.listener.name", "security.inter.broker.protocol"})

_NO_ID = -1
_ACLS_ELSEWHERE = "authorizer.zookeeper.url"

Checked = TypeVar("Checked")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSettings:
    node_id: int | None
    """The node's id. None only with ZooKeeper, which generates ids."""
    has_controller: bool
    """False if the controllers are other nodes, and for a broker with ZooKeeper."""
    endpoints: BrokerEndpoints
    limits: NetworkLimits
    security: Mapping[str, ListenerSecurity]
    """The security by listener name."""
    authorizer: AuthorizerSettings | None
    """None allows everything to every client."""
    zookeeper: ZooKeeperSettings | None
    """The connection to ZooKeeper, for a broker that keeps its metadata there."""

    @classmethod
    def of(cls, config: BrokerConfig) -> StartSettings:
        """Return the settings of a config. Raise ConfigError with every mistake."""
        mistakes = list(_mistakes(config))
        endpoints = _checked(lambda: endpoints_of(config), mistakes)
        limits = _checked(lambda: NetworkLimits.of(config).with_resolved_hosts(), mistakes)
        security: dict[str, ListenerSecurity] = {}
        for one in (*endpoints.listeners, *endpoints.controllers) if endpoints is not None else ():
            found = _checked(partial(ListenerSecurity.of, config, one.name, one.protocol), mistakes)
            if found is not None:
                security[one.name] = found
        authorizer = _checked(lambda: AuthorizerSettings.of(config), mistakes)
        _checked(lambda: selects_by_rack(config), mistakes)
        zookeeper = _checked(lambda: _zookeeper_settings(config), mistakes)
        if mistakes or endpoints is None or limits is None:
            raise ConfigError("; ".join(mistakes))
        return cls(
            node_id=config.node_id,
            has_controller=is_controller(config),
            endpoints=endpoints,
            limits=limits,
            security=security,
            authorizer=authorizer,
            zookeeper=zookeeper,
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

    With ZooKeeper there are none. Otherwise these are the controller's listener and its protocol, the quorum's address,
    and the listener between brokers.
    """
    if "zookeeper.connect" in overrides and "process.roles" not in overrides:
        return {key: text for key, text in EMBEDDED_SETTINGS.items() if key not in _OF_A_CONTROLLER} | dict(overrides)
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


def _mistakes(config: BrokerConfig) -> Iterator[str]:
    for name in config.missing:
        yield f"{name} has to be set"
    if config.uses_zookeeper:
        yield from _zookeeper_mistakes(config)
    else:
        yield from _role_mistakes(config)
    if config.flag("remote.log.storage.system.enable"):
        yield (
            "remote.log.storage.system.enable: tiered storage is not supported, so records in remote storage"
            " would be missing"
        )


def _role_mistakes(config: BrokerConfig) -> Iterator[str]:
    if "zookeeper.connect" in config.settings:
        yield (
            "zookeeper.connect: a node with process.roles does not use ZooKeeper, and a migration with both is not"
            " supported. Remove one of the two keys; `tidelog import --zookeeper` takes a cluster's metadata along"
        )
    voters = config.texts("controller.quorum.voters")
    if not is_controller(config):
        yield from _observer_mistakes(config)
    elif len(voters) > 1:
        yield f"controller.quorum.voters: this broker is its only controller, but {len(voters)} voters are listed"


def _zookeeper_mistakes(config: BrokerConfig) -> Iterator[str]:
    """Yield the mistakes of a broker that keeps its metadata in ZooKeeper, as Kafka 3.9 finds them."""
    highest, broker_id = config.number("reserved.broker.max.id"), config.number("broker.id")
    if broker_id < _NO_ID:
        yield f"broker.id: {broker_id} is no id; use {_NO_ID} or leave it out, and ZooKeeper generates one"
    elif not config.flag("broker.id.generation.enable"):
        if config.node_id is None:
            yield "broker.id has to be set, because broker.id.generation.enable is false"
    elif config.node_id is not None and config.node_id > highest:
        yield (
            f"broker.id: {config.node_id} is above reserved.broker.max.id, {highest}, so ZooKeeper may generate the"
            " same id for another broker: raise that key, or set broker.id.generation.enable=false"
        )
    if config.flag("zookeeper.metadata.migration.enable"):
        yield (
            "zookeeper.metadata.migration.enable: a migration of running brokers is not supported; stop them, and"
            " take the metadata along with `tidelog import --zookeeper`"
        )
    if _ACLS_ELSEWHERE in config.settings:
        yield f"{_ACLS_ELSEWHERE}: ACLs in another ZooKeeper are not supported"
    if config.texts("controller.listener.names"):
        yield "controller.listener.names must not be set: a broker with ZooKeeper has no listener for a controller"


def _zookeeper_settings(config: BrokerConfig) -> ZooKeeperSettings | None:
    if not config.uses_zookeeper:
        return None
    from tidelog.server.metadata.zookeeper.connection import connection_settings

    properties = {name: setting.text for name, setting in config.static.items()}
    return connection_settings(str(config["zookeeper.connect"]), properties)


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
