"""A node as a process: its event loop, and the signals that stop it.

=============================  ======================================================================================
SIGTERM or SIGINT              a clean shutdown; during the start it waits until the logs are loaded, but not for a
                               controller that is away
a second signal                the process ends at once: the next start recovers as after a kill
a fatal failure, as of all     the rest of the broker stops, and ``serve`` returns the reason
log directories
=============================  ======================================================================================

Thread rule: the main thread, once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext

import uvloop

from tidelog.config.broker_config import BrokerConfig
from tidelog.replication.broker_state import BrokerState
from tidelog.server.broker import Broker
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.controller_node import ControllerNode
from tidelog.server.dispatcher import ControllerDispatcher, Dispatcher
from tidelog.server.metadata.broker_metadata import StartGivenUpError
from tidelog.server.network.endpoint import is_broker, is_controller
from tidelog.server.start_settings import StartSettings
from tidelog.storage.fs import LOCAL

Accompany = Callable[[ClusterNode], AbstractAsyncContextManager[object]]
"""Returns a context that is entered before the node's start and left after its stop."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BY_SIGNAL = 128
"""The base of the exit code: shells report 128 plus the signal's number for a process that a signal ended."""


def _alone(_node: ClusterNode) -> AbstractAsyncContextManager[object]:
    return nullcontext()


def serve(
    config: BrokerConfig,
    *,
    on_ready: Callable[[ClusterNode], None],
    opens_controller: bool = True,
    accompany: Accompany = _alone,
) -> str | None:
    """Serve until a signal comes and return None, or until a fatal failure and return the reason.

    ``on_ready`` is called when clients are served. ``opens_controller`` opens the listeners of a controller that is
    also a broker. ``accompany`` returns a context around the life of the node, as that of the inspector's pages. Raise
    the errors of ``ClusterNode.start``.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if config.uses_zookeeper:
            return runner.run(_serve_with_zookeeper(config, on_ready, accompany))
        return runner.run(_serve(_node(config, opens_controller=opens_controller), on_ready, accompany))


async def _serve_with_zookeeper(
    config: BrokerConfig, on_ready: Callable[[ClusterNode], None], accompany: Accompany
) -> str | None:
    """Serve as a broker that keeps its metadata in ZooKeeper. Its id may come from ZooKeeper, too."""
    from tidelog.server.metadata.zookeeper_cluster.broker_id import find_broker_id
    from tidelog.server.zookeeper_dispatcher import ZooKeeperDispatcher

    node_id = config.node_id
    if node_id is None:
        settings = StartSettings.of(config)
        assert settings.zookeeper is not None, "the config has zookeeper.connect"
        node_id = await find_broker_id(config, settings.zookeeper, LOCAL)
    return await _serve(Broker(config, ZooKeeperDispatcher, node_id=node_id), on_ready, accompany)


def _node(config: BrokerConfig, *, opens_controller: bool) -> ClusterNode:
    """Return the node of the config's roles."""
    if not is_broker(config):
        return ControllerNode(config, ControllerDispatcher)
    if is_controller(config):
        return Broker(config, Dispatcher, controller_service=ControllerDispatcher if opens_controller else None)
    from tidelog.server.forwarding_dispatcher import ForwardingDispatcher

    return Broker(config, ForwardingDispatcher)


async def _serve(broker: ClusterNode, on_ready: Callable[[ClusterNode], None], accompany: Accompany) -> str | None:
    async with accompany(broker):
        return await _serve_node(broker, on_ready)


async def _serve_node(broker: ClusterNode, on_ready: Callable[[ClusterNode], None]) -> str | None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str | None] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if ended.done():
            os._exit(_BY_SIGNAL + number)
        ended.set_result(None)
        if broker.state is not BrokerState.RUNNING:
            broker.give_up_start()

    def on_failure(reason: str) -> None:
        if not ended.done():
            ended.set_result(reason)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    broker.on_failure = on_failure
    try:
        await broker.start()
    except StartGivenUpError:
        return None
    try:
        if not ended.done():
            on_ready(broker)
        return await ended
    finally:
        await broker.stop()
        gc.freeze()  # the process ends: to search and free its objects one by one takes a second for 8,000 partitions
