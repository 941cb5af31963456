"""DescribeClientQuotas: the quotas of the entities that match a filter (KIP-546).

================  ====================================================================================================
component         matches an entity whose name of the component's type
================  ====================================================================================================
exact             equals the given name
default           is the default
specified         exists, default or not
================  ====================================================================================================

An entity with more types than the filter names matches too, unless the filter is strict. Source: Kafka's
``ClientQuotasImage.describe``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.metadata.requests import Outcome
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_TYPES = ("user", "client-id", "ip")


class Match(IntEnum):
    """The match types, with Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _check(request)
    found = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in sorted(quotas.items())],
        }
        for entity, quotas in broker.metadata.image.client_quotas.items()
        if _fits(dict(entity), request)
    ]
    return {"entries": found}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    outcome = Outcome.of(error)
    return {"error_code": outcome.error, "error_message": outcome.message, "entries": None}


def _fits(entity: Mapping[str, str | None], request: Struct) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    return all(
        component.entity_type in entity and _is_match(component, entity[component.entity_type])
        for component in request.components
    )


def _is_match(component: Struct, name: str | None) -> bool:
    match component.match_type:
        case Match.EXACT:
            return name is not None and name == component.match
        case Match.DEFAULT:
            return name is None
        case _:
            return True


def _check(request: Struct) -> None:
    seen: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise _bad("Invalid empty entity type.")
        if kind in seen:
            raise _bad(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _TYPES:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if component.match_type not in tuple(Match):
            raise _bad(f"Unknown match type {component.match_type}")
        if component.match_type == Match.EXACT and component.match is None:
            raise _bad("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if component.match_type != Match.EXACT and component.match is not None:
            name = Match(component.match_type).name
            raise _bad(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        raise _bad(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )


def _bad(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
