"""A broker as a process: its loop, and the signals that end it.

=============================  ======================================================================================
SIGTERM or SIGINT              an orderly stop; while the broker starts, as soon as it has
the second of them             the process ends at once: what a kill leaves is recovered at the next start
every log directory failed     an orderly stop of what can be stopped; the caller is told
=============================  ======================================================================================

Called by: the command line, in the main thread, once. Thread rule: that thread's.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import uvloop

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.broker import Broker

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BY_SIGNAL = 128
"""Plus its number: the exit code of a process that a signal ended, as shells have it."""


def serve(config: BrokerConfig, *, on_ready: Callable[[Broker], None]) -> str | None:
    """Serve until a signal comes: None. Until the broker cannot go on: why.

    ``on_ready``: called when clients are served. Raises what ``Broker.start`` raises.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(Broker(config), on_ready))


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
