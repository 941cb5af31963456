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

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from tidelog.model import TidelogError
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode, MalformedMessageError, error_code_of
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import read_request_header, response_header
from tidelog.protocol.messages import read_request, response_of, write_response
from tidelog.protocol.schemas import Direction, Struct, struct_class
from tidelog.server.broker import Broker
from tidelog.server.handlers.api_groups import API_GROUPS
from tidelog.server.handlers.registry import Handler, handler_of
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse, Response

Result = TypeVar("Result")
_log = logging.getLogger(__name__)

LARGE_BYTES: Final = 64 * 1024
"""The bytes from which a request that kio reads may have thousands of items."""


class Interceptor(Protocol):
    """A hook before every handler. Tests use it to inject faults."""

    def __call__(
        self, context: RequestContext, request: Any, handle: Callable[[], Response | Awaitable[Response]]
    ) -> Response | Awaitable[Response]:
        """Return a response, or ``handle()``, the handler's. An ApiError counts as the handler's own."""
        ...


class Dispatcher:
    """The service that handles the requests of a broker's connections."""

    def __init__(self, broker: Broker, interceptor: Interceptor | None = None) -> None:
        self._broker = broker
        self.interceptor = interceptor
        self._handlers: dict[tuple[ApiKey, int], Handler] = {}
        """The handlers of supported versions that were requested so far."""

    def begin(self, frame: bytearray, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Handle a request; see ``Service.begin``. The result is awaitable only if the handler has to wait."""
        header = read_request_header(frame)
        api, version = header.api, header.version
        context = RequestContext(
            api, version, header.correlation_id, header.client_id, client, self._broker.timers.now_ms(), len(frame)
        )
        handler = self._handlers.get((api, version))
        if handler is None:
            if version not in VERSIONS[api] or api not in API_GROUPS:
                return _unsupported(context)
            handler = self._handlers[api, version] = handler_of(api)
        self._broker.server_metrics.count(api, version)
        if self._broker.quotas.is_on:
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
            response = _error_response(handler, context, request, error)
        if isinstance(response, Mapping):
            response = self._throttled(context, response)
            response = response_of(context.api, context.version, response)
            written = await self._in_thread(context, write_response, context.api, context.version, response)
            response = EncodedResponse([written])
        return _reply(context, response)

    async def _in_thread(self, context: RequestContext, function: Callable[..., Result], *arguments: object) -> Result:
        with self._counted(context):
            return await self._broker.in_thread(function, *arguments)

    @contextmanager
    def _counted(self, context: RequestContext) -> Iterator[None]:
        """Charge the time that the block takes to the client's request quota."""
        start_ms = self._broker.timers.monotonic_ms()
        try:
            yield
        finally:
            if self._broker.quotas.is_on:
                self._broker.quotas.count_time(context, self._broker.timers.monotonic_ms() - start_ms)

    def _begin_read(self, handler: Handler, context: RequestContext, request: Any) -> Reply | Awaitable[Reply]:
        try:
            response = self._call_handler(handler, context, request)
        except Exception as error:
            response = _error_response(handler, context, request, error)
        if isinstance(response, EncodedResponse):
            return _reply(context, response)
        if isinstance(response, Awaitable):
            return self._finish(handler, context, request, response)
        return self._reply(context, response)

    def _call_handler(self, handler: Handler, context: RequestContext, request: Any) -> Response | Awaitable[Response]:
        if self.interceptor is None:
            return handler.handle(self._broker, context, request)
        return self.interceptor(context, request, partial(handler.handle, self._broker, context, request))

    async def _finish(
        self, handler: Handler, context: RequestContext, request: Any, awaitable: Awaitable[Response]
    ) -> Reply:
        try:
            response = await awaitable
        except Exception as error:
            response = _error_response(handler, context, request, error)
        return self._reply(context, response)

    def _reply(self, context: RequestContext, response: Response) -> Reply:
        """Return the reply. A handler that returns an EncodedResponse applies the throttle time itself."""
        if isinstance(response, Mapping):
            response = self._throttled(context, response)
        return _reply(context, response)

    def _throttled(self, context: RequestContext, response: Mapping[str, Any]) -> Mapping[str, Any]:
        throttle_ms = self._broker.quotas.throttle(context)
        if not throttle_ms or "throttle_time" not in _response_fields(context):
            return response
        return {**response, "throttle_time": throttle_ms}


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


def _error_response(handler: Handler, context: RequestContext, request: Struct, error: Exception) -> Mapping[str, Any]:
    """Return the response to a request that failed. Raise ``error`` again if the API has no error response."""
    if not isinstance(error, TidelogError):
        _log.error("A request of %s failed: %s", context.client, context, exc_info=error)
        error = TidelogError("the server has failed")
    if handler.refuse is not None:
        return handler.refuse(context, request, error)
    names = _response_fields(context)
    if "error_code" not in names:
        raise error
    message = {"error_message": str(error)} if "error_message" in names else {}
    return {"error_code": error_code_of(error), **message}


def _response_fields(context: RequestContext) -> set[str]:
    response: Any = struct_class(context.api, Direction.RESPONSE, context.version)
    return {field.name for field in dataclasses.fields(response)}
