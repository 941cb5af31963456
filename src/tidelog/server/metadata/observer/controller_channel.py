"""Requests to the active controller, wherever it is at the moment.

``announce`` tells the leader of the metadata quorum, which the observer finds. A request waits for a leader, and is
repeated until the active controller responds to it:

===========================================================  =========================================================
event                                                        effect
===========================================================  =========================================================
no leader is known                                           wait for one
no connection, or it is lost; NOT_CONTROLLER                 repeat after a pause, or once another leader is known
an authentication that fails, no common version              raised: a repetition does not help
no other response within the request's timeout               RequestTimedOutError with the last reason
===========================================================  =========================================================

A request may so be carried out twice, as by Kafka's brokers. Thread rule: the event loop only.
Source: Kafka's ``NodeToControllerRequestThread``, ``RaftControllerNodeProvider``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Values
from tidelog.client.model.errors import ClientClosedError, ClientError, DisconnectedError, RequestTimedOutError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.observer_messages import QuorumNode
from tidelog.server.metadata.observer.quorum_links import QuorumLinks

_PAUSE_MS: Final = 50


class ControllerChannel:
    def __init__(self, links: QuorumLinks, *, request_timeout_ms: int, monotonic_ms: Callable[[], int]) -> None:
        """``request_timeout_ms``: the longest wait for one response, ``controller.socket.timeout.ms``."""
        self._links = links
        self._request_timeout_ms = request_timeout_ms
        self._monotonic_ms = monotonic_ms
        self._changed = asyncio.Event()
        self.leader: QuorumNode | None = None

    def announce(self, leader: QuorumNode | None) -> None:
        self.leader = leader
        self._changed.set()
        self._changed = asyncio.Event()

    def change(self, settings: ClientSettings) -> None:
        """Use other settings for the connections that are opened from now on, the metadata log's too."""
        self._links.change(settings)

    async def send(self, api: ApiKey, values: Values, *, purpose: str, timeout_ms: int) -> Any:
        """Send a request once, as soon as a leader is known. Raise ClientError, also if none is in that time."""
        deadline_ms = self._monotonic_ms() + timeout_ms
        while self.leader is None and (left_ms := deadline_ms - self._monotonic_ms()) > 0:
            await _wait(self._changed, None, left_ms)  # an announcement may say that there is no leader
        if self.leader is None:
            raise DisconnectedError("no active controller is known")
        left_ms = max(1, deadline_ms - self._monotonic_ms())
        return await self._links.send(self.leader, api, values, purpose=purpose, timeout_ms=left_ms)

    async def ask(
        self,
        api: ApiKey,
        values: Values,
        *,
        purpose: str,
        timeout_ms: int,
        is_refused: Callable[[Any], bool] = lambda response: response.error_code == ErrorCode.NOT_CONTROLLER,
    ) -> Any:
        """Return the active controller's response, by the table above. ``is_refused`` finds NOT_CONTROLLER in it."""
        deadline_ms = self._monotonic_ms() + timeout_ms
        reason = "no active controller is known"
        while (left_ms := deadline_ms - self._monotonic_ms()) > 0:
            changed, leader = self._changed, self.leader
            if leader is not None:
                try:
                    response = await self.send(
                        api, values, purpose=purpose, timeout_ms=min(left_ms, self._request_timeout_ms)
                    )
                except ClientError as error:
                    if not error.is_retriable or isinstance(error, ClientClosedError):
                        raise
                    reason = error.message
                else:
                    if not is_refused(response):
                        return response
                    reason = f"controller {leader.id} is no longer the active one"
            await _wait(changed, None if leader is None else _PAUSE_MS, deadline_ms - self._monotonic_ms())
        raise RequestTimedOutError(f"{api.title} has no response of the active controller in {timeout_ms} ms: {reason}")


async def _wait(changed: asyncio.Event, pause_ms: int | None, left_ms: int) -> None:
    """Wait until another leader is known, for ``pause_ms`` at most, but not beyond the deadline."""
    timeout_ms = max(0, left_ms if pause_ms is None else min(pause_ms, left_ms))
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await changed.wait()
    except TimeoutError:
        return
