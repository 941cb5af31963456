"""SaslHandshake of a client that is let in already: an error.

Clients of a listener with SASL are asked before their requests come here (``SaslGate``); at other listeners there is
nothing to ask for. Source: Kafka's ``KafkaApis.handleSaslHandshakeRequest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    return {"error_code": ErrorCode.ILLEGAL_SASL_STATE}
