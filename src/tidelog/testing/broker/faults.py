"""The faults that a test has planned for the next requests: errors, delays, lost responses.

====================  ==============================================================================================
planned               the request
====================  ==============================================================================================
an error              is not carried out; the response has the error for everything that the request names
a delay               is carried out later; the connection's further requests wait, as behind any slow request
a lost response       is carried out; its connection is closed instead of a response
====================  ==============================================================================================

If several faults match a request, the first planned one applies. A fault with a topic matches requests that name the
topic, alone or with others, and fetches whose session contains it. Thread rule: the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.broker import Broker
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import Response

Handle = Callable[[], Response | Awaitable[Response]]

_TOPIC_LISTS = ("topics", "topic_data", "topic_names", "v3_and_below_topics", "groups", "transactions")
"""The fields of requests that contain topics, or parts with topics."""
_TOPIC_NAMES = ("name", "topic", "topic_name")


@dataclass(slots=True, kw_only=True)
class Fault:
    """A fault for some requests: an error, a delay or a lost response."""

    api: ApiKey
    topic: str | None
    times: int
    """The number of requests that it is still for."""
    error: ErrorCode | None = None
    delay_ms: int = 0
    loses_response: bool = False


class Faults:
    def __init__(self, node: ClusterNode) -> None:
        self._node = node
        self._planned: list[Fault] = []
        self._client_ids: dict[str, str | None] = {}
        """The client id of each connection's last request."""

    def plan(self, fault: Fault) -> None:
        self._planned.append(fault)

    def forget(self) -> None:
        """Drop the faults that no request has met yet."""
        self._planned.clear()

    @property
    def are_planned(self) -> bool:
        return bool(self._planned)

    @property
    def is_idle(self) -> bool:
        """See ``Interceptor``. The client id of a plain request is that of the connection's requests before it."""
        return not self.are_planned

    def drop_connections(self, client_id: str | None) -> int:
        """Close the connections of a client, or all for None, and return their number."""
        found = [
            connection
            for listener in self._node.listeners
            for connection in listener.connections
            if not connection.is_closed
            and (client_id is None or self._client_ids.get(connection.client.connection_id) == client_id)
        ]
        for connection in found:
            connection.close()
        return len(found)

    def __call__(self, context: RequestContext, request: Any, handle: Handle) -> Response | Awaitable[Response]:
        """Apply a fault or handle the request, like an ``Interceptor``."""
        self._client_ids[context.connection_id] = context.client_id
        fault = self._take(context.api, request)
        if fault is None:
            return handle()
        if fault.error is not None:
            raise ApiError(fault.error, "a test has asked for this error")
        return self._carry_out(fault, context.client, handle)

    def _take(self, api: ApiKey, request: Any) -> Fault | None:
        for fault in self._planned:
            if fault.api is api and (fault.topic is None or fault.topic in self._topics_of(request)):
                fault.times -= 1
                if fault.times <= 0:
                    self._planned.remove(fault)
                return fault
        return None

    async def _carry_out(self, fault: Fault, client: ClientConnection, handle: Handle) -> Response:
        if fault.delay_ms:
            over = asyncio.Event()
            self._node.timers.call_later(fault.delay_ms, over.set)
            await over.wait()
        answer = handle()
        if isinstance(answer, Awaitable):
            answer = await answer
        if fault.loses_response:
            self._close(client)
            await asyncio.Event().wait()  # the closed connection cancels this
        return answer

    def _close(self, client: ClientConnection) -> None:
        for listener in self._node.listeners:
            for connection in [one for one in listener.connections if one.client is client]:
                connection.abort()

    # --- topics ---

    def _topics_of(self, request: Any) -> set[str]:
        """Return the names of the request's topics."""
        return {self._name_of(topic) for topic in self._named(request)}

    def _named(self, request: Any) -> Iterator[Any]:
        """Yield names, ids, and parts of the request that have either."""
        for name in _TOPIC_LISTS:
            for part in getattr(request, name, None) or ():
                yield part
                yield from self._named(part)
        if isinstance(self._node, Broker):
            session = self._node.fetch_sessions.get(getattr(request, "session_id", 0))
            if session is not None:
                yield from session.partitions.values()

    def _name_of(self, topic: Any) -> str:
        if isinstance(topic, str):
            return topic
        topic_id = topic if isinstance(topic, UUID) else getattr(topic, "topic_id", None)
        known = None if topic_id is None else self._node.metadata.image.topics_by_id.get(topic_id)
        if known is not None:
            return known.name
        return next((name for field in _TOPIC_NAMES if (name := getattr(topic, field, None))), "")
