"""Requests that only a controller can carry out, on a broker whose controllers are other nodes (KIP-590).

The request goes as it is to the active controller, in an Envelope with the client's principal and address. The
controller authorizes it for that principal. The bytes of its response go to the client, with the longer one of the
controller's throttle time and of this broker's:

========================================================  ============================================================
result                                                    the client gets
========================================================  ============================================================
a response                                                its bytes; they have the client's correlation id already
NOT_CONTROLLER, or no connection                          the request is repeated at the next active controller
no response within 60 s                                   REQUEST_TIMED_OUT
UNSUPPORTED_VERSION for the Envelope                      UNSUPPORTED_VERSION
another error for the Envelope: the cluster is not set    UNKNOWN_SERVER_ERROR, and a line in the log
up correctly, such as a broker without CLUSTER_ACTION
========================================================  ============================================================

Two kinds of resources in a change of configs are not forwarded: log levels, which are this broker's own, and refused
ones. This broker knows best which of its configs are valid, so it checks them first (``alterations``). Thread rule: the
event loop only.
Source: Kafka's ``KafkaApis.handle``, ``ForwardingManagerImpl``, ``EnvelopeRequest``.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.model.errors import RequestTimedOutError
from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, code_of
from tidelog.protocol.headers import read_response_header, write_request_header
from tidelog.protocol.messages import read_request, read_response, write_request
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.handlers.api_groups import ApiGroup
from tidelog.server.handlers.cluster import api_versions
from tidelog.server.handlers.configs import alterations
from tidelog.server.handlers.registry import BROKER_APIS, Handler, Handlers, Registry
from tidelog.server.handlers.throttling import throttled_bytes
from tidelog.server.metadata.requests import Outcome
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse
from tidelog.server.security.principal_data import write_principal

if TYPE_CHECKING:
    from typing_extensions import Buffer

CONTROLLERS_ALONE: Final = frozenset({ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})
"""The forwarded APIs that a broker with the controller role does not serve at its own listeners."""

FORWARDED: Final = (
    frozenset(
        {
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.UNREGISTER_BROKER,
            ApiKey.UPDATE_FEATURES,
        }
    )
    | CONTROLLERS_ALONE
)
"""The APIs that are forwarded. Kafka forwards those of delegation tokens too, which this broker does not have."""

_TIMEOUT_MS: Final = 60_000
_PURPOSE: Final = "forwarding"
_log: Final = logging.getLogger(__name__)


def read_unparsed(_api: ApiKey, _version: int, body: memoryview) -> memoryview:
    """Return the request's bytes after its header: only the controller parses them."""
    return body


async def handle(node: ClusterNode, context: RequestContext, body: memoryview) -> EncodedResponse:
    """Return the controller's response to a request. Raise ApiError by the table above, or ClientError if the
    controller refuses this broker's connection."""
    return EncodedResponse([await _forward(node, context, body)])


async def handle_config_changes(
    node: ClusterNode, context: RequestContext, body: memoryview
) -> EncodedResponse | Mapping[str, Any]:
    """Check the resources of a change of configs, and forward the others."""
    request = read_request(context.api, context.version, body)
    outcomes = alterations.preprocess(node, context, request)
    left = [one for one in request.resources if alterations.identity_of(one) not in outcomes]
    if len(left) == len(request.resources):
        return await handle(node, context, body)
    if left:
        data = await _forward(
            node, context, _body(context, {"validate_only": request.validate_only, "resources": left})
        )
        for one in read_response(context.api, context.version, data).responses:
            outcomes[one.resource_type, one.resource_name] = Outcome(code_of(one.error_code), one.error_message)
    return {"responses": alterations.results(request.resources, outcomes)}


def forwarding(handler: Handler) -> Handler:
    """Return a handler that forwards the requests to a controller's handler. The response after an error stays."""
    refuse, read = handler.refuse, handler.read

    def refuse_unparsed(context: RequestContext, body: Any, error: TidelogError) -> Mapping[str, Any]:
        assert refuse is not None
        return refuse(context, read(context.api, context.version, body), error)

    is_of_configs = handler.handle in (alterations.alter_configs, alterations.incremental_alter_configs)
    return Handler(
        handle_config_changes if is_of_configs else handle,
        None if refuse is None else refuse_unparsed,
        read=read_unparsed,
    )


async def _forward(node: ClusterNode, context: RequestContext, body: Buffer) -> memoryview:
    """Return the bytes after the header of the controller's response."""
    channel = node.controllers
    assert channel is not None, "a node with a controller forwards nothing"
    header = write_request_header(context.api, context.version, context.correlation_id, context.client_id)
    values = {
        "request_data": header + bytes(body),
        "request_principal": write_principal(context.principal),
        "client_host_address": ipaddress.ip_address(context.client_host).packed,
    }
    try:
        response = await channel.ask(ApiKey.ENVELOPE, values, purpose=_PURPOSE, timeout_ms=_TIMEOUT_MS)
    except RequestTimedOutError as error:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT, error.message) from None
    error_code = code_of(response.error_code)
    if error_code is ErrorCode.UNSUPPORTED_VERSION:
        raise ApiError(error_code)
    if error_code is not ErrorCode.NONE or response.response_data is None:
        _log.error(
            "The controller refuses to carry out %s for client %s with %s: check that this broker's principal has"
            " CLUSTER_ACTION on the cluster",
            context.api.title,
            context.client,
            error_code.name,
        )
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "the controller refuses requests that this broker forwards")
    data = memoryview(bytes(response.response_data))
    correlation_id, size = read_response_header(context.api, context.version, data)
    if correlation_id != context.correlation_id:
        reason = f"the controller responds to request {correlation_id} instead of {context.correlation_id}"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    return throttled_bytes(node.quotas, context, data[size:])


def _body(context: RequestContext, values: Mapping[str, Any]) -> memoryview:
    return memoryview(write_request(context.api, context.version, values))


def _forwarding_group(group: ApiGroup) -> Handlers:
    """Return the handlers of a group, of which the controllers' forward."""
    own = BROKER_APIS.loaders[group]()
    found = {api: forwarding(handler) if api in FORWARDED else handler for api, handler in own.items()}
    if group is ApiGroup.CLUSTER:
        found |= dict.fromkeys(CONTROLLERS_ALONE, Handler(handle, read=read_unparsed))
        found[ApiKey.API_VERSIONS] = Handler(
            partial(api_versions.respond, tuple(FORWARDING_APIS.groups)), read=api_versions.read
        )
    return found


FORWARDING_APIS: Final = Registry(
    {**BROKER_APIS.groups, **dict.fromkeys(CONTROLLERS_ALONE, ApiGroup.CLUSTER)},
    {group: partial(_forwarding_group, group) for group in BROKER_APIS.loaders},
)
"""The APIs of a broker whose controllers are other nodes."""
