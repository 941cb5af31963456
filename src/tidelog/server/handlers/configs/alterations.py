"""AlterConfigs and IncrementalAlterConfigs: changes of configs, resource by resource (KIP-339).

AlterConfigs replaces all configs of a resource: a config that the request omits is removed. IncrementalAlterConfigs
sets and deletes single configs, and edits lists. Log levels change at once on this broker. The controller changes
everything else, after this broker has validated its own configs:

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

A refused resource is refused as a whole. Source: Kafka's ``ConfigAdminManager``, ``KafkaApis``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, Resource, group, topic
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.configs.changes import ChangeKind, SettingChange, changed, list_key
from tidelog.server.configs.loggers import alter_loggers
from tidelog.server.configs.resource_type import ResourceType, broker_number
from tidelog.server.configs.stored_passwords import encoded_changes, encoded_texts
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.requests import DONE, Outcome
from tidelog.server.network.limits import NetworkLimits
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import configs as wire

    Altered = wire.AlterConfigsRequestAlterConfigsResource | wire.IncrementalAlterConfigsRequestAlterConfigsResource
    AlteredConfig = wire.AlterConfigsRequestAlterableConfig | wire.IncrementalAlterConfigsRequestAlterableConfig
    AlteredT = TypeVar("AlteredT", bound=Altered)
    AlteringRequest = wire.AlterConfigsRequest | wire.IncrementalAlterConfigsRequest

Wanted = TypeVar("Wanted")

RESOURCES = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
"""The types whose configs are in the metadata."""

Identity = tuple[int, str]
"""The type's number and the name. It equals the ``ConfigResource`` if the type is known."""


async def alter_configs(
    node: ClusterNode, context: RequestContext, request: wire.AlterConfigsRequest
) -> wire.AlterConfigsResponse:
    outcomes, checked = _replacements(node, context, request)
    wanted = _authorized(node, context, checked, outcomes)
    if wanted:
        replaced = await node.controller.replace_configs(wanted, validate_only=request.validate_only)
        outcomes.update(replaced.items())
    return {"responses": results(request.resources, outcomes)}


def refuse_alter_configs(
    context: RequestContext, request: wire.AlterConfigsRequest, error: TidelogError
) -> wire.AlterConfigsResponse:
    return {"responses": _refusals(request.resources, error)}


async def incremental_alter_configs(
    node: ClusterNode, context: RequestContext, request: wire.IncrementalAlterConfigsRequest
) -> wire.IncrementalAlterConfigsResponse:
    outcomes, checked = _changes(node, context, request)
    wanted = _authorized(node, context, checked, outcomes)
    if wanted:
        altered = await node.controller.alter_configs(wanted, validate_only=request.validate_only)
        outcomes.update(altered.items())
    return {"responses": results(request.resources, outcomes)}


def refuse_incremental_alter_configs(
    context: RequestContext, request: wire.IncrementalAlterConfigsRequest, error: TidelogError
) -> wire.IncrementalAlterConfigsResponse:
    return {"responses": _refusals(request.resources, error)}


def preprocess(node: ClusterNode, context: RequestContext, request: AlteringRequest) -> dict[Identity, Outcome]:
    """Check a request of either API that another node's controller carries out, and change log levels.

    Return the outcomes of refused resources and of changed log levels. The controller gets the other resources.
    """
    if context.api is ApiKey.ALTER_CONFIGS:
        return _replacements(node, context, cast("wire.AlterConfigsRequest", request))[0]
    return _changes(node, context, cast("wire.IncrementalAlterConfigsRequest", request))[0]


def _replacements(
    node: ClusterNode, context: RequestContext, request: wire.AlterConfigsRequest
) -> tuple[dict[Identity, Outcome], dict[ConfigResource, Mapping[str, str]]]:
    """Return the outcomes of refused resources, and the configs of all others."""
    outcomes: dict[Identity, Outcome] = {}
    wanted: dict[ConfigResource, Mapping[str, str]] = {}
    for identity, altered in _resources_once(request.resources).items():
        try:
            _check_values(altered, altered.configs)
            resource = _config_resource(identity)
            texts = {config.name: config.value or "" for config in altered.configs}
            if resource.type is ResourceType.BROKER:
                _require_broker(node.authorizer, context)
                _check_broker_of(node, context, resource, texts)
                texts = encoded_texts(node.config, texts)
        except TidelogError as error:
            outcomes[identity] = Outcome.of(error)
        else:
            wanted[resource] = texts
    return outcomes, wanted


def _changes(
    node: ClusterNode, context: RequestContext, request: wire.IncrementalAlterConfigsRequest
) -> tuple[dict[Identity, Outcome], dict[ConfigResource, Sequence[SettingChange]]]:
    """Change log levels. Return their outcomes and those of refused resources, and the changes of all others."""
    outcomes: dict[Identity, Outcome] = {}
    wanted: dict[ConfigResource, Sequence[SettingChange]] = {}
    for identity, altered in _resources_once(request.resources).items():
        try:
            changes = _setting_changes(altered)
            if identity[0] == ResourceType.BROKER_LOGGER:
                _require_broker(node.authorizer, context)
                _alter_loggers(node, identity[1], changes, validate_only=request.validate_only)
                outcomes[identity] = DONE
            else:
                resource = _checked(node, context, identity, changes)
                is_brokers = resource.type is ResourceType.BROKER
                wanted[resource] = encoded_changes(node.config, changes) if is_brokers else changes
        except TidelogError as error:
            outcomes[identity] = Outcome.of(error)
    return outcomes, wanted


def _authorized(
    node: ClusterNode,
    context: RequestContext,
    wanted: Mapping[ConfigResource, Wanted],
    outcomes: dict[Identity, Outcome],
) -> dict[ConfigResource, Wanted]:
    """Return the resources that the client may alter. Add the outcomes of the others to ``outcomes``."""
    allowed: dict[ConfigResource, Wanted] = {}
    for resource, change in wanted.items():
        try:
            node.authorizer.require(context, Operation.ALTER_CONFIGS, guarded(resource))
        except TidelogError as error:
            outcomes[resource] = Outcome.of(error)
        else:
            allowed[resource] = change
    return allowed


def _checked(
    node: ClusterNode, context: RequestContext, identity: Identity, changes: Sequence[SettingChange]
) -> ConfigResource:
    resource = _config_resource(identity)
    if resource.type is ResourceType.BROKER:
        _require_broker(node.authorizer, context)
        _check_lists(changes)
        before = node.metadata.image.settings_of(resource.type, resource.name)
        after = _after_changes(before, changed(resource.type, before, changes))
        _check_broker_of(node, context, resource, after)
    return resource


def _check_broker_of(
    node: ClusterNode, context: RequestContext, resource: ConfigResource, texts: Mapping[str, str]
) -> None:
    """Raise ApiError(INVALID_REQUEST) for configs of a broker that are not valid.

    At a controller's listener it may be any broker, and that broker has validated the values before it forwarded them.
    """
    if not node.is_controllers_listener(context.listener):
        _check_broker(resource, texts, config=node.config, node_id=node.node_id)
    elif resource.name:
        broker_number(resource.name, "Unable to parse broker name as a base 10 number.")


def _alter_loggers(node: ClusterNode, name: str, changes: Sequence[SettingChange], *, validate_only: bool) -> None:
    if broker_number(name, f"Node id must be an integer, but it is: {name}") != node.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node.node_id}, but received {name}")
    alter_loggers(changes, validate_only=validate_only)


def _resources_once(resources: Sequence[AlteredT]) -> dict[Identity, AlteredT]:
    """Return the resources that are in the request exactly once."""
    times = _times(resources)
    return {identity_of(resource): resource for resource in resources if times[identity_of(resource)] == 1}


def _config_resource(identity: Identity) -> ConfigResource:
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


def _require_broker(authorizer: Authorizer, context: RequestContext) -> None:
    """Raise ApiError(CLUSTER_AUTHORIZATION_FAILED), without a message, unless the client may alter brokers."""
    if not authorizer.allows(context, Operation.ALTER_CONFIGS, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _setting_changes(resource: wire.IncrementalAlterConfigsRequestAlterConfigsResource) -> list[SettingChange]:
    """Return the changes. Raise ApiError(INVALID_REQUEST) for an unknown kind, a duplicate key or a null value."""
    _check_values(resource, [config for config in resource.configs if config.config_operation != ChangeKind.DELETE])
    return [
        SettingChange(config.name, _change_kind(config.config_operation), config.value) for config in resource.configs
    ]


def _check_values(resource: Altered, with_values: Iterable[AlteredConfig]) -> None:
    """Raise ApiError(INVALID_REQUEST) for a duplicate key, or for a null value in ``with_values``."""
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [config.name for config in with_values if config.value is None]
    if nulls:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def _change_kind(number: int) -> ChangeKind:
    if number not in tuple(ChangeKind):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {number}")
    return ChangeKind(number)


def _check_lists(changes: Iterable[SettingChange]) -> None:
    """Raise ApiError(INVALID_CONFIG) if a change appends to, or subtracts from, a broker config that is not a list."""
    for change in changes:
        if change.kind in (ChangeKind.APPEND, ChangeKind.SUBTRACT) and not list_key(ResourceType.BROKER, change.key):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"Config value {change.kind.name.lower()} is not allowed for config key: {change.key}",
            )


def _check_broker(resource: ConfigResource, texts: Mapping[str, str], *, config: BrokerConfig, node_id: int) -> None:
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


def _after_changes(before: Mapping[str, str], different: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**before, **different}.items() if value is not None}


def results(
    resources: Sequence[Altered], outcomes: Mapping[Identity, Outcome]
) -> list[wire.AlterConfigsResponseAlterConfigsResourceResponse]:
    """Return a result for each resource, in the order of the request."""
    times = _times(resources)
    repeated = Outcome(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return [
        _result(resource, outcomes[identity_of(resource)])
        if times[identity_of(resource)] == 1
        else _result(resource, repeated)
        for resource in resources
    ]


def _refusals(
    resources: Iterable[Altered], error: TidelogError
) -> list[wire.AlterConfigsResponseAlterConfigsResourceResponse]:
    """Return the same error for each resource."""
    outcome = Outcome.of(error)
    return [_result(resource, outcome) for resource in resources]


def _result(resource: Altered, outcome: Outcome) -> wire.AlterConfigsResponseAlterConfigsResourceResponse:
    return {
        "error_code": outcome.error,
        "error_message": outcome.message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _times(resources: Iterable[Altered]) -> Counter[Identity]:
    return Counter(map(identity_of, resources))


def identity_of(resource: Altered) -> Identity:
    return resource.resource_type, resource.resource_name
