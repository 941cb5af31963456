"""The throttle time of a client in a response.

========================  ==============================================================================================
response                  its throttle time
========================  ==============================================================================================
the handler's fields      that of the client's quotas
a controller's bytes      the longer one of the controller's, which is in the bytes, and of the client's quotas here
========================  ==============================================================================================

The client's connection is not read for that time. In all responses that controllers send, the throttle time is the
first field, of four bytes, if there is one. Source: Kafka's ``RequestHandlerHelper.sendForwardedResponse``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from tidelog.protocol.schemas import Direction, struct_class
from tidelog.server.handlers.error_response import response_fields
from tidelog.server.network.request_context import RequestContext
from tidelog.server.quotas.client_quotas import ClientQuotas

_FIELD: Final = "throttle_time"
_BYTES: Final = 4


def throttled(quotas: ClientQuotas, context: RequestContext, response: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the response with the client's throttle time."""
    throttle_ms = quotas.throttle(context)
    if not throttle_ms or _FIELD not in response_fields(context):
        return response
    return {**response, _FIELD: throttle_ms}


def throttled_bytes(quotas: ClientQuotas, context: RequestContext, body: memoryview) -> memoryview:
    """Return a controller's response with the longer throttle time."""
    response: Any = struct_class(context.api, Direction.RESPONSE, context.version)
    has_time = dataclasses.fields(response)[0].name == _FIELD
    told_ms = max(0, int.from_bytes(body[:_BYTES], "big", signed=True)) if has_time else 0
    context.client.throttle_ms = max(context.client.throttle_ms, told_ms)
    throttle_ms = max(told_ms, quotas.throttle(context))
    if not has_time or throttle_ms == told_ms:
        return body
    return memoryview(throttle_ms.to_bytes(_BYTES, "big") + body[_BYTES:])
