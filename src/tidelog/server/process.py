"""A broker as a process: its event loop, and the signals that stop it.

=============================  ======================================================================================
SIGTERM or SIGINT              a clean shutdown; during the start it waits until the start is complete
a second signal                the process ends at once: the next start recovers as after a kill
a fatal failure, as of all     the rest of the broker stops, and ``serve`` returns the reason
log directories
=============================  ======================================================================================

Thread rule: the main thread, once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import uvloop

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.broker import Broker
from tidelog.server.dispatcher import Dispatcher

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BY_SIGNAL = 128
"""The base of the exit code: shells report 128 plus the signal's number for a process that a signal ended."""


def serve(config: BrokerConfig, *, on_ready: Callable[[Broker], None]) -> str | None:
    """Serve until a signal comes and return None, or until a fatal failure and return the reason.

    ``on_ready`` is called when clients are served. Raise the errors of ``Broker.start``.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(Broker(config, Dispatcher), on_ready))


async def _serve(broker: Broker, on_ready: Callable[[Broker], None]) -> str | None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[str | None] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if ended.done():
            os._exit(_BY_SIGNAL + number)
        ended.set_result(None)

    def on_failure(reason: str) -> None:
        if not ended.done():
            ended.set_result(reason)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    broker.on_failure = on_failure
    await broker.start()
    try:
        if not ended.done():
            on_ready(broker)
        return await ended
    finally:
        await broker.stop()
