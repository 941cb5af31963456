"""Validation of config changes, resource by resource, before the controller is asked. Pure.

=====================================================  ===============================================================
a resource is refused if                               error
=====================================================  ===============================================================
it is in the request twice                             INVALID_REQUEST for each entry
it has the same key twice, or a null value             INVALID_REQUEST
its type has no configs in the metadata                INVALID_REQUEST
it is a broker or a broker's loggers, and the client   CLUSTER_AUTHORIZATION_FAILED, before its configs are validated
may not alter the cluster's configs
it is a broker, but not this one                       INVALID_REQUEST
it is this broker or all brokers, with invalid values  INVALID_REQUEST, whatever the mistake
it is any other, and the client may not alter it       an authorization error, after all of these
=====================================================  ===============================================================

A refused resource is refused as a whole. Source: Kafka's ``ConfigAdminManager``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, Resource, group, topic
from tidelog.server.configs.broker_name import broker_number
from tidelog.server.configs.changes import ChangeKind, SettingChange, list_key
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.requests import Outcome
from tidelog.server.network.limits import NetworkLimits
from tidelog.server.request_context import RequestContext

RESOURCES = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
"""The types whose configs are in the metadata."""


Identity = tuple[int, str]
"""The type's number and the name. It equals the ``ConfigResource`` if the type is known."""


def resources_in(request: Struct) -> dict[Identity, Struct]:
    """Return the resources that are in the request exactly once."""
    times = _times(request)
    return {_identity(resource): resource for resource in request.resources if times[_identity(resource)] == 1}


def config_resource(identity: Identity) -> ConfigResource:
    """Return the resource. Raise ApiError(INVALID_REQUEST) if its type has no configs in the metadata."""
    number, name = identity
    if number not in RESOURCES:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}")
    return ConfigResource(ResourceType(number), name)


def guarded(identity: Identity) -> Resource:
    """Return the resource that authorization checks for a config resource: the topic, the group, or the cluster."""
    number, name = identity
    if number == ResourceType.TOPIC:
        return topic(name)
    return group(name) if number == ResourceType.GROUP else CLUSTER


def require_broker(authorizer: Authorizer, context: RequestContext) -> None:
    """Raise ApiError(CLUSTER_AUTHORIZATION_FAILED), without a message, unless the client may alter brokers."""
    if not authorizer.allows(context, Operation.ALTER_CONFIGS, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def setting_changes(resource: Struct) -> list[SettingChange]:
    """Return the changes. Raise ApiError(INVALID_REQUEST) for an unknown kind, a duplicate key or a null value."""
    check_values(resource, [config for config in resource.configs if config.config_operation != ChangeKind.DELETE])
    return [
        SettingChange(config.name, change_kind(config.config_operation), config.value) for config in resource.configs
    ]


def check_values(resource: Struct, with_values: Iterable[Struct]) -> None:
    """Raise ApiError(INVALID_REQUEST) for a duplicate key, or for a null value in ``with_values``."""
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [config.name for config in with_values if config.value is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def change_kind(number: int) -> ChangeKind:
    if number not in tuple(ChangeKind):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {number}")
    return ChangeKind(number)


def check_lists(changes: Iterable[SettingChange]) -> None:
    """Raise ApiError(INVALID_CONFIG) if a change appends to, or subtracts from, a broker config that is not a list."""
    for change in changes:
        if change.kind in (ChangeKind.APPEND, ChangeKind.SUBTRACT) and not list_key(ResourceType.BROKER, change.key):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {change.kind.name.lower()} is not allowed for config key: {change.key}",
            )


def check_broker(resource: ConfigResource, texts: Mapping[str, str], *, config: BrokerConfig, node_id: int) -> None:
    """Raise ApiError(INVALID_REQUEST) if ``texts`` are not valid dynamic configs of this broker or of all brokers."""
    if resource.name:
        number = broker_number(resource.name, f"Node id must be an integer, but it is: {resource.name}")
        if number != node_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {resource.name}"
            )
    try:
        NetworkLimits.of(config.with_dynamic(texts, cluster_wide=not resource.name))
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, error.message) from error


def after_changes(before: Mapping[str, str], different: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **different}.items() if value is not None}


def answers(request: Struct, outcomes: Mapping[Identity, Outcome]) -> list[dict[str, Any]]:
    """Return a result for each resource, in the order of the request."""
    times = _times(request)
    repeated = Outcome(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return [
        _answer(resource, outcomes[_identity(resource)])
        if times[_identity(resource)] == 1
        else _answer(resource, repeated)
        for resource in request.resources
    ]


def refusals(request: Struct, error: TidelogError) -> list[dict[str, Any]]:
    """Return the same error for each resource."""
    outcome = Outcome.of(error)
    return [_answer(resource, outcome) for resource in request.resources]


def _answer(resource: Struct, outcome: Outcome) -> dict[str, Any]:
    return {
        "error_code": outcome.error,
        "error_message": outcome.message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _times(request: Struct) -> Counter[Identity]:
    return Counter(map(_identity, request.resources))


def _identity(resource: Struct) -> Identity:
    return resource.resource_type, resource.resource_name
