"""Envelope: a client's request that a broker forwards to the controller, with the client's principal (KIP-590).

The broker needs CLUSTER_ACTION. The request inside is authorized for its own principal, and counts for that principal's
quotas. Its response is returned as bytes with a header. The throttle time in it is carried out by the broker.

==================================================  ==================================================
mistake                                             error of the envelope
==================================================  ==================================================
the broker may not forward                          CLUSTER_AUTHORIZATION_FAILED
the principal cannot be read                        PRINCIPAL_DESERIALIZATION_FAILURE
the client's address has neither 4 nor 16 bytes     INVALID_REQUEST
the API is not forwarded                            INVALID_REQUEST
the request, or its version, cannot be read         UNSUPPORTED_VERSION
this node is not the active controller              NOT_CONTROLLER; the broker looks for another one
==================================================  ==================================================

Source: Kafka's ``EnvelopeUtils``, ``DefaultKafkaPrincipalBuilder``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.protocol.api_key import VERSIONS
from tidelog.protocol.errors import ApiError, ErrorCode, MalformedMessageError, error_code_of
from tidelog.protocol.headers import RequestHeader, read_request_header, response_header
from tidelog.protocol.messages import write_response
from tidelog.server.handlers.error_response import error_response
from tidelog.server.handlers.forwarding import FORWARDED
from tidelog.server.handlers.throttling import throttled
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse, Response
from tidelog.server.security.principal import Principal
from tidelog.server.security.principal_data import read_principal

if TYPE_CHECKING:
    from tidelog.protocol.message_types import controller as wire
    from tidelog.server.cluster_node import ClusterNode
    from tidelog.server.handlers.registry import Handler


async def handle(node: ClusterNode, context: RequestContext, request: wire.EnvelopeRequest) -> wire.EnvelopeResponse:
    principal = _principal(request.request_principal)
    host = _host(request.client_host_address)
    data = bytes(request.request_data)
    header = _header(data)
    client = ClientConnection(
        host=host,
        port=0,
        listener=context.listener,
        connection_id=context.connection_id,
        principal=principal,
    )
    inner = RequestContext(
        header.api, header.version, header.correlation_id, header.client_id, client, context.received_ms, len(data)
    )
    handler = _handler(header)
    try:
        message = handler.read(header.api, header.version, memoryview(data)[header.size :])
    except MalformedMessageError as error:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Failed to parse a forwarded request: {error}") from error
    body = await _respond(node, inner, handler, message)
    return {"response_data": response_header(header.api, header.version, header.correlation_id) + body}


def _principal(data: bytes | None) -> Principal:
    try:
        return read_principal(data or b"")
    except MalformedMessageError as error:
        raise ApiError(
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
            f"Failed to deserialize client principal from envelope: {error}",
        ) from error


def _host(address: bytes) -> str:
    try:
        return str(ipaddress.ip_address(bytes(address)))
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Failed to parse client address from envelope") from None


def _header(data: bytes) -> RequestHeader:
    try:
        return read_request_header(data)
    except MalformedMessageError as error:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, f"Failed to parse request header from envelope: {error}"
        ) from error


def _handler(header: RequestHeader) -> Handler:
    from tidelog.server.handlers.controller_registry import CONTROLLER_APIS

    if header.api not in FORWARDED or header.api not in CONTROLLER_APIS.groups:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"API {header.api.name} is not enabled or is not eligible for forwarding"
        )
    if header.version not in VERSIONS[header.api]:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{header.api.name} version {header.version} is not supported")
    return CONTROLLER_APIS.handler_of(header.api)


async def _respond(node: ClusterNode, context: RequestContext, handler: Handler, request: object) -> bytes:
    """Return the body of the inner response. Raise ApiError(NOT_CONTROLLER) if the handler does."""
    response: Response
    try:
        result = handler.handle(node, context, request)
        response = await result if isinstance(result, Awaitable) else result
    except Exception as error:
        if isinstance(error, TidelogError) and error_code_of(error) is ErrorCode.NOT_CONTROLLER:
            raise
        response = error_response(handler, context, request, error)
    if isinstance(response, EncodedResponse):
        return b"".join(bytes(part) for part in response.parts)  # type: ignore[arg-type]
    assert isinstance(response, Mapping), "every forwarded API has a response"
    return write_response(context.api, context.version, throttled(node.quotas, context, response))
