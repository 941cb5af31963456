"""SaslAuthenticate after the authentication, which is an error.

``sasl_handshake`` explains when it comes here. Source: Kafka's ``KafkaApis.handleSaslAuthenticateRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_MESSAGE = "SaslAuthenticate request received after successful authentication"


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": _MESSAGE}
