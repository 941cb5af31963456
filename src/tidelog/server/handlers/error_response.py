"""The response to a request whose handler has failed.

An error that is not a TidelogError is a bug and is logged with its stack trace. The handler's own ``refuse`` makes the
response, if there is one. Otherwise the code is in the response's ``error_code``.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import error_code_of
from tidelog.protocol.schemas import Direction, struct_class
from tidelog.server.handlers.registry import Handler
from tidelog.server.network.request_context import RequestContext

_log = logging.getLogger(__name__)


def error_response(handler: Handler, context: RequestContext, request: object, error: Exception) -> Mapping[str, Any]:
    """Return the response to a request that failed. Raise ``error`` again if the API has no error response."""
    if not isinstance(error, TidelogError):
        _log.error("A request of %s failed: %s", context.client, context, exc_info=error)
        error = TidelogError("the server has failed")
    if handler.refuse is not None:
        return handler.refuse(context, request, error)
    names = response_fields(context)
    if "error_code" not in names:
        raise error
    message = {"error_message": str(error)} if "error_message" in names else {}
    return {"error_code": error_code_of(error), **message}


def response_fields(context: RequestContext) -> set[str]:
    response: Any = struct_class(context.api, Direction.RESPONSE, context.version)
    return {field.name for field in dataclasses.fields(response)}
