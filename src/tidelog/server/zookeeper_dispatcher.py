"""The dispatcher of a broker that keeps its metadata in ZooKeeper: see ``handlers.zookeeper_registry``."""

from __future__ import annotations

from typing import ClassVar

from tidelog.server.dispatcher import Dispatcher
from tidelog.server.handlers.registry import Registry
from tidelog.server.handlers.zookeeper_registry import ZOOKEEPER_APIS


class ZooKeeperDispatcher(Dispatcher):
    apis: ClassVar[Registry] = ZOOKEEPER_APIS
