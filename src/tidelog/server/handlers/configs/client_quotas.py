"""DescribeClientQuotas and AlterClientQuotas: the quotas of users, client ids and addresses (KIP-546).

A description has the quotas of the entities that match a filter:

================  ====================================================================================================
component         matches an entity whose name of the component's type
================  ====================================================================================================
exact             equals the given name
default           is the default
specified         exists, default or not
================  ====================================================================================================

An entity with more types than the filter names matches too, unless the filter is strict. Source: Kafka's
``ClientQuotasImage.describe``, ``ControllerApis``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER
from tidelog.server.metadata.requests import Outcome, QuotaChange
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import configs as wire
    from tidelog.server.cluster_node import ClusterNode

_TYPES = ("user", "client-id", "ip")


class Match(IntEnum):
    """The match types, with Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


def describe_client_quotas(
    node: ClusterNode, context: RequestContext, request: wire.DescribeClientQuotasRequest
) -> wire.DescribeClientQuotasResponse:
    if not node.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    _check(request)
    found: list[wire.DescribeClientQuotasResponseEntryData] = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in sorted(quotas.items())],
        }
        for entity, quotas in node.metadata.image.client_quotas.items()
        if _is_selected(dict(entity), request)
    ]
    return {"entries": found}


def refuse_describe_client_quotas(
    context: RequestContext, request: wire.DescribeClientQuotasRequest, error: TidelogError
) -> wire.DescribeClientQuotasResponse:
    outcome = Outcome.of(error)
    return {"error_code": outcome.error, "error_message": outcome.message, "entries": None}


def _is_selected(entity: Mapping[str, str | None], request: wire.DescribeClientQuotasRequest) -> bool:
    if request.strict and len(entity) != len(request.components):
        return False
    return all(
        component.entity_type in entity and _is_match(component, entity[component.entity_type])
        for component in request.components
    )


def _is_match(component: wire.ComponentData, name: str | None) -> bool:
    match component.match_type:
        case Match.EXACT:
            return name is not None and name == component.match
        case Match.DEFAULT:
            return name is None
        case _:
            return True


def _check(request: wire.DescribeClientQuotasRequest) -> None:
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


# --- AlterClientQuotas ---


async def alter_client_quotas(
    node: ClusterNode, context: RequestContext, request: wire.AlterClientQuotasRequest
) -> wire.AlterClientQuotasResponse:
    node.authorizer.require(context, Operation.ALTER_CONFIGS)
    changes = [_change(entry) for entry in request.entries]
    outcomes = await node.controller.alter_client_quotas(changes, validate_only=request.validate_only)
    return {"entries": [_result(entry, outcome) for entry, outcome in zip(request.entries, outcomes, strict=True)]}


def refuse_alter_client_quotas(
    context: RequestContext, request: wire.AlterClientQuotasRequest, error: TidelogError
) -> wire.AlterClientQuotasResponse:
    outcome = Outcome.of(error)
    return {"entries": [_result(entry, outcome) for entry in request.entries]}


def _change(entry: wire.AlterClientQuotasRequestEntryData) -> QuotaChange:
    """Return the change of one entity. If a type occurs twice in it, the last name counts, as in Kafka."""
    return QuotaChange(
        tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items())),
        [(operation.key, None if operation.remove else operation.value) for operation in entry.ops],
    )


def _result(entry: wire.AlterClientQuotasRequestEntryData, outcome: Outcome) -> wire.AlterClientQuotasResponseEntryData:
    return {
        "error_code": outcome.error,
        "error_message": outcome.message,
        "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity],
    }
