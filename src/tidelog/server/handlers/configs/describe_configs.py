"""DescribeConfigs: the settings of topics, brokers, groups, subscriptions to clients' metrics, and loggers.

A resource that cannot be described has its error; a type of resource that Kafka does not know refuses the request. One
that is named twice is answered once: a description is thousands of times as large as a name.
Source: Kafka's ``ConfigHelper``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.authorization.operation import Operation
from tidelog.server.configs.broker_entries import broker_entries, default_entries
from tidelog.server.configs.broker_name import broker_number
from tidelog.server.configs.config_entry import ConfigEntry, chosen
from tidelog.server.configs.loggers import described_loggers
from tidelog.server.configs.resource_entries import client_metrics_entries, group_entries, topic_entries
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.handlers.configs.alterations import guarded
from tidelog.server.metadata.requests import Outcome
from tidelog.server.request_context import RequestContext
from tidelog.server.topic_name import check_topic_name

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    for resource in request.resources:
        if ResourceType.of(resource.resource_type) is ResourceType.UNKNOWN:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected resource type UNKNOWN for resource {resource.resource_name}"
            )
    once = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    return {"results": [_described(broker, context, resource, request) for resource in once.values()]}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"results": [_refusal(resource, error) for resource in request.resources]}


def _described(broker: Broker, context: RequestContext, resource: Struct, request: Struct) -> Mapping[str, Any]:
    wanted = guarded((resource.resource_type, resource.resource_name))
    try:
        broker.authorizer.require(context, Operation.DESCRIBE_CONFIGS, wanted)
        configs = _configs(broker, resource, request)
    except TidelogError as error:
        return _refusal(resource, error)
    return {"resource_type": resource.resource_type, "resource_name": resource.resource_name, "configs": configs}


def _configs(broker: Broker, resource: Struct, request: Struct) -> list[Mapping[str, Any]]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        _require(name, "Broker id must not be empty")
        _require_own(name, broker.node_id, f"expected {broker.node_id}")
        return list(described_loggers(resource.configuration_keys))
    return [
        entry.described(with_synonyms=request.include_synonyms, with_documentation=request.include_documentation)
        for entry in chosen(
            _entries(broker, ResourceType.of(resource.resource_type), name), resource.configuration_keys
        )
    ]


def _entries(broker: Broker, kind: ResourceType, name: str) -> list[ConfigEntry]:
    image = broker.metadata.image
    texts = image.settings_of(kind, name)
    match kind:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return topic_entries(texts, broker.config)
        case ResourceType.BROKER:
            if not name:
                return default_entries(broker.config)
            _require_own(name, broker.node_id, f"expected {broker.node_id} or empty string,")
            return broker_entries(broker.config)
        case ResourceType.CLIENT_METRICS:
            _require(name, "Client metrics subscription name must not be empty")
            return client_metrics_entries(texts)
        case _:
            _require(name, "Group name must not be empty")
            return group_entries(texts, broker.config)


def _require(name: str, refusal: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)


def _require_own(name: str, node_id: int, expected: str) -> None:
    if broker_number(name, f"Broker id must be an integer, but it is: {name}") != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, {expected} but received {name}")


def _refusal(resource: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {
        "error_code": error_code_of(error),
        "error_message": Outcome.of(error).message or "",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }
