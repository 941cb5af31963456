"""SaslHandshake after the authentication, or on a listener without SASL, which is an error.

On a SASL listener, ``SaslAuthenticator`` authenticates clients before their requests come here. Other listeners have no
SASL authentication. Source: Kafka's ``KafkaApis.handleSaslHandshakeRequest``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE}
