"""The dispatcher of a broker whose controllers are other nodes: see ``handlers.forwarding``."""

from __future__ import annotations

from typing import ClassVar

from tidelog.server.dispatcher import Dispatcher
from tidelog.server.handlers.forwarding import FORWARDING_APIS
from tidelog.server.handlers.registry import Registry


class ForwardingDispatcher(Dispatcher):
    apis: ClassVar[Registry] = FORWARDING_APIS
