"""What a request would change, resource by resource, before the controller is asked. Pure.

=====================================================  ===============================================================
a resource                                             is refused
=====================================================  ===============================================================
that is in the request twice                           each time
with the same key twice, or a value of null            as a whole
of a type that has no settings                         as a whole
that is a broker, or a broker's loggers, and not the   as a whole, before its settings are looked at
client's to alter
that is a broker, but not this one                     as a whole
that is this broker, or all, with settings that        as a whole: INVALID_REQUEST, whatever is wrong
``BrokerConfig`` refuses
that is any other, and not the client's to alter       as a whole, after all of these
=====================================================  ===============================================================

Called by: AlterConfigs, IncrementalAlterConfigs. Source: Kafka's ``ConfigAdminManager``.
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
"""Types whose settings are kept in the metadata."""


Identity = tuple[int, str]
"""Number of the type, and name: equal to the ``ConfigResource``, where there is such a type."""


def resources_in(request: Struct) -> dict[Identity, Struct]:
    """Those that are in a request once."""
    times = _times(request)
    return {_identity(resource): resource for resource in request.resources if times[_identity(resource)] == 1}


def config_resource(identity: Identity) -> ConfigResource:
    """ApiError INVALID_REQUEST for one whose settings are not kept in the metadata."""
    number, name = identity
    if number not in RESOURCES:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}")
    return ConfigResource(ResourceType(number), name)


def guarded(identity: Identity) -> Resource:
    """What one has to be allowed to touch for settings of a resource: that itself, or the cluster."""
    number, name = identity
    if number == ResourceType.TOPIC:
        return topic(name)
    return group(name) if number == ResourceType.GROUP else CLUSTER


def require_broker(authorizer: Authorizer, context: RequestContext) -> None:
    """ApiError CLUSTER_AUTHORIZATION_FAILED, without a message, unless the client may alter brokers."""
    if not authorizer.allows(context, Operation.ALTER_CONFIGS, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def setting_changes(resource: Struct) -> list[SettingChange]:
    """ApiError INVALID_REQUEST for a kind of change that there is not, the same key twice, and null as a value."""
    check_values(resource, [config for config in resource.configs if config.config_operation != ChangeKind.DELETE])
    return [
        SettingChange(config.name, change_kind(config.config_operation), config.value) for config in resource.configs
    ]


def check_values(resource: Struct, with_values: Iterable[Struct]) -> None:
    """ApiError INVALID_REQUEST; ``with_values``: the settings of the resource that need one."""
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
    """ApiError INVALID_CONFIG for a change of a broker's setting that only a list could have."""
    for change in changes:
        if change.kind in (ChangeKind.APPEND, ChangeKind.SUBTRACT) and not list_key(ResourceType.BROKER, change.key):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {change.kind.name.lower()} is not allowed for config key: {change.key}",
            )


def check_broker(resource: ConfigResource, texts: Mapping[str, str], *, config: BrokerConfig, node_id: int) -> None:
    """ApiError INVALID_REQUEST where ``texts`` cannot be what is set at run time for this broker, or for all."""
    if resource.name:
        number = broker_number(resource.name, f"Node id must be an integer, but it is: {resource.name}")
        if number != node_id:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {resource.name}"
            )
    try:
        NetworkLimits.of(config.with_dynamic(texts, of_all=not resource.name))
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, error.message) from error


def after_changes(before: Mapping[str, str], different: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **different}.items() if value is not None}


def answers(request: Struct, outcomes: Mapping[Identity, Outcome]) -> list[dict[str, Any]]:
    """An answer for each resource, in the order of the request."""
    times = _times(request)
    repeated = Outcome(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return [
        _answer(resource, outcomes[_identity(resource)])
        if times[_identity(resource)] == 1
        else _answer(resource, repeated)
        for resource in request.resources
    ]


def refusals(request: Struct, error: TidelogError) -> list[dict[str, Any]]:
    """The same answer for each resource."""
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
