"""The dispatcher: it reads a request's header, calls the API's handler and writes the response.

====================================  =================================================================================
request                               result
====================================  =================================================================================
its handler returns a response        that response
ApiVersions of an unknown version     a response of version 0 with UNSUPPORTED_VERSION; the client retries (KIP-511)
another unknown API or version        the connection is closed, with a line in the log
bytes that are not a valid message    the same
its handler raises                    the response of the handler's ``refuse``, if it has one. Otherwise the code is in
                                      the response's ``error_code``; without that field, the connection is closed
====================================  =================================================================================

An error that is not a TidelogError is a bug and is logged with its stack trace. Large requests are read in a background
thread, and their responses are written there: either may take a second. Thread rule: the event loop only. Source:
Kafka's ``KafkaApis.handle`` and ``RequestContext``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, cast

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode, MalformedMessageError, error_code_of
from tidelog.protocol.frames import Frame, length_prefix
from tidelog.protocol.headers import read_request_header, response_header
from tidelog.protocol.messages import read_request, response_of, write_response
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.handlers.controller_registry import CONTROLLER_APIS
from tidelog.server.handlers.error_response import error_response
from tidelog.server.handlers.registry import BROKER_APIS, Handler, Registry
from tidelog.server.handlers.throttling import throttled
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse, Response
from tidelog.server.plain_requests import PlainRequests

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

Result = TypeVar("Result")
_log = logging.getLogger(__name__)

LARGE_BYTES: Final = 64 * 1024
"""The bytes from which a request that kio reads may have thousands of items."""


class Interceptor(Protocol):
    """A hook before every handler. Tests use it to inject faults."""

    @property
    def is_idle(self) -> bool:
        """True if every call would only return ``handle()``."""
        ...

    def __call__(
        self, context: RequestContext, request: Any, handle: Callable[[], Response | Awaitable[Response]]
    ) -> Response | Awaitable[Response]:
        """Return a response, or ``handle()``, the handler's. An ApiError counts as the handler's own."""
        ...


class Dispatcher:
    """The service that handles the requests of a broker's connections."""

    apis: ClassVar[Registry] = BROKER_APIS
    """The APIs that are served."""

    def __init__(self, node: ClusterNode, interceptor: Interceptor | None = None) -> None:
        """Create the dispatcher of a node. The handlers of ``apis`` take the node."""
        self._node = node
        self.interceptor = interceptor
        self._handlers: dict[tuple[ApiKey, int], Handler] = {}
        """The handlers of supported versions that were requested so far."""
        has_plain = ApiKey.PRODUCE in self.apis.groups
        self.plain = PlainRequests(cast("Broker", node), self._begin_any) if has_plain else None
        """The way of plain requests. Without it all requests take the general way."""

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Handle a request; see ``Service.begin``. The result is awaitable only if the handler has to wait."""
        if self.plain is not None and (self.interceptor is None or self.interceptor.is_idle):
            reply = self.plain.begin(frame, client)
            if reply is not None:
                return reply
        return self._begin_any(frame, client)

    def _begin_any(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Handle any request the general way."""
        header = read_request_header(frame)
        api, version = header.api, header.version
        context = RequestContext(
            api, version, header.correlation_id, header.client_id, client, self._node.timers.now_ms(), len(frame)
        )
        handler = self._handlers.get((api, version))
        if handler is None:
            if version not in VERSIONS[api] or api not in self.apis.groups:
                return _unsupported(context)
            handler = self._handlers[api, version] = self.apis.handler_of(api)
        self._node.server_metrics.count(api, version)
        client.is_exempt = False
        if self._node.quotas.is_on:
            return self._begin_counted(handler, context, memoryview(frame)[header.size :])
        return self._begin(handler, context, memoryview(frame)[header.size :])

    def _begin_counted(self, handler: Handler, context: RequestContext, body: memoryview) -> Reply | Awaitable[Reply]:
        with self._counted(context):
            return self._begin(handler, context, body)

    def _begin(self, handler: Handler, context: RequestContext, body: memoryview) -> Reply | Awaitable[Reply]:
        if handler.read is read_request and context.size >= LARGE_BYTES:
            return self._finish_large(handler, context, body)
        return self._begin_read(handler, context, handler.read(context.api, context.version, body))

    async def _finish_large(self, handler: Handler, context: RequestContext, body: memoryview) -> Reply:
        request = await self._in_thread(context, handler.read, context.api, context.version, body)
        try:
            with self._counted(context):
                response = self._call_handler(handler, context, request)
            if isinstance(response, Awaitable):
                response = await response
        except Exception as error:
            response = self._refused(handler, context, request, error)
        if isinstance(response, Mapping):
            response = throttled(self._node.quotas, context, response)
            response = response_of(context.api, context.version, response)
            written = await self._in_thread(context, write_response, context.api, context.version, response)
            response = EncodedResponse([written])
        return _reply(context, response)

    async def _in_thread(self, context: RequestContext, function: Callable[..., Result], *arguments: object) -> Result:
        with self._counted(context):
            return await self._node.in_thread(function, *arguments)

    @contextmanager
    def _counted(self, context: RequestContext) -> Iterator[None]:
        """Charge the time that the block takes to the client's request quota."""
        start_s = time.perf_counter()
        try:
            yield
        finally:
            if self._node.quotas.is_on:
                self._node.quotas.count_time(context, (time.perf_counter() - start_s) * 1000)

    def _begin_read(self, handler: Handler, context: RequestContext, request: Any) -> Reply | Awaitable[Reply]:
        try:
            response = self._call_handler(handler, context, request)
        except Exception as error:
            response = self._refused(handler, context, request, error)
        if isinstance(response, EncodedResponse):
            return _reply(context, response)
        if isinstance(response, Awaitable):
            return self._finish(handler, context, request, response)
        return self._reply(context, response)

    def _call_handler(self, handler: Handler, context: RequestContext, request: Any) -> Response | Awaitable[Response]:
        if self.interceptor is None:
            return handler.handle(self._node, context, request)
        return self.interceptor(context, request, partial(handler.handle, self._node, context, request))

    async def _finish(
        self, handler: Handler, context: RequestContext, request: Any, awaitable: Awaitable[Response]
    ) -> Reply:
        try:
            response = await awaitable
        except Exception as error:
            response = self._refused(handler, context, request, error)
        return self._reply(context, response)

    def _refused(self, handler: Handler, context: RequestContext, request: Any, error: Exception) -> Mapping[str, Any]:
        """Count an error, and return the response to it."""
        self._node.server_metrics.count_error(context.api, error_code_of(error))
        return error_response(handler, context, request, error)

    def _reply(self, context: RequestContext, response: Response) -> Reply:
        """Return the reply. A handler that returns an EncodedResponse applies the throttle time itself."""
        if isinstance(response, Mapping):
            response = throttled(self._node.quotas, context, response)
        return _reply(context, response)


class ControllerDispatcher(Dispatcher):
    """The service that handles the requests at a controller's listeners."""

    apis = CONTROLLER_APIS


def _reply(context: RequestContext, response: Response) -> Reply:
    if response is None:
        return None
    header = response_header(context.api, context.version, context.correlation_id)
    if isinstance(response, EncodedResponse):
        parts = [header, *response.parts]
    else:
        parts = [header, write_response(context.api, context.version, response)]
    return [length_prefix(parts), *parts]


def _unsupported(context: RequestContext) -> Reply:
    if context.api is not ApiKey.API_VERSIONS:
        raise MalformedMessageError(f"{context.api.name} version {context.version} is not supported")
    own = VERSIONS[ApiKey.API_VERSIONS]
    return _reply(
        context._replace(version=0),
        {
            "error_code": ErrorCode.UNSUPPORTED_VERSION,
            "api_keys": [{"api_key": ApiKey.API_VERSIONS, "min_version": own.oldest, "max_version": own.latest}],
        },
    )
