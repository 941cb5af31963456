"""DescribeConfigs and ListConfigResources: configs, and the resources that have them.

The resources are topics, brokers, groups, client metrics subscriptions, and loggers. A resource that cannot be
described gets an error of its own, but an unknown resource type fails the whole request. A repeated resource is
described once, because a description is thousands of times as large as a name. For the same reason equal configs are
encoded once, and a request may name at most ``MOST_RESOURCES``.

ListConfigResources has the resources by type (KIP-714, KIP-1142); version 0 is ListClientMetricsResources:

====================  ================================================================================================
topics                all
brokers, loggers      those of each broker
groups, client        those with at least one config
metrics
====================  ================================================================================================

Source: Kafka's ``ConfigHelper``, ``KafkaApis.handleListConfigResources``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.topic_name import check_topic_name
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.operation import Operation
from tidelog.server.configs.broker_entries import broker_entries, default_entries
from tidelog.server.configs.config_entry import ConfigEntry, chosen
from tidelog.server.configs.loggers import described_loggers
from tidelog.server.configs.resource_entries import client_metrics_entries, group_entries, topic_entries
from tidelog.server.configs.resource_type import ResourceType, broker_number
from tidelog.server.handlers.configs.alterations import guarded
from tidelog.server.handlers.configs.encoded_results import EncodedResults
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import Outcome
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse

if TYPE_CHECKING:
    from tidelog.protocol.message_types import configs as wire
    from tidelog.server.cluster_node import ClusterNode

MOST_RESOURCES: Final = 20_000
_KNOWN: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN}
_SHARING: Final = (ResourceType.TOPIC, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
"""The types whose descriptions depend only on their own configs and the broker's."""
_AT_ONCE: Final = 20
"""Resources to describe before other tasks of the event loop get a turn: one may have hundreds of configs."""
_LISTED = tuple(kind for kind in ResourceType if kind is not ResourceType.UNKNOWN)


async def describe_configs(
    node: ClusterNode, context: RequestContext, request: wire.DescribeConfigsRequest
) -> EncodedResponse:
    for resource in request.resources:
        if resource.resource_type not in _KNOWN:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unexpected resource type UNKNOWN for resource {resource.resource_name}"
            )
    once = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}
    if len(once) > MOST_RESOURCES:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"A request may describe at most {MOST_RESOURCES} resources.")
    results = EncodedResults(context.version)
    descriptions = _Descriptions(node, request, results)
    async for resource in yielding_to_loop(once.values(), _AT_ONCE):
        try:
            wanted = guarded((resource.resource_type, resource.resource_name))
            node.authorizer.require(context, Operation.DESCRIBE_CONFIGS, wanted)
            settings = descriptions.of(resource)
        except TidelogError as error:
            results.add(_failure(resource, Outcome.of(error)))
        else:
            results.add({"resource_type": resource.resource_type, "resource_name": resource.resource_name}, settings)
    return results.response(node.quotas.throttle(context))


def refuse_describe_configs(
    context: RequestContext, request: wire.DescribeConfigsRequest, error: TidelogError
) -> wire.DescribeConfigsResponse:
    outcome = Outcome.of(error)
    return {"results": [_failure(resource, outcome) for resource in request.resources]}


class _Descriptions:
    """The encoded descriptions for one request."""

    def __init__(self, node: ClusterNode, request: wire.DescribeConfigsRequest, results: EncodedResults) -> None:
        self._node = node
        self._request = request
        self._results = results
        self._known: dict[object, bytes] = {}
        """The encoded descriptions by type, configs and requested keys."""

    def of(self, resource: wire.DescribeConfigsResource) -> bytes:
        """Return the encoded description. Raise ApiError if the resource has none."""
        kind, name = ResourceType.of(resource.resource_type), resource.resource_name
        if kind not in _SHARING:
            return self._encoded(resource)
        _check_name(self._node, kind, name)
        texts = self._node.metadata.image.settings_of(kind, name)
        key = kind, frozenset(texts.items()), frozenset(resource.configuration_keys or ())
        if key not in self._known:
            self._known[key] = self._encoded(resource)
        return self._known[key]

    def _encoded(self, resource: wire.DescribeConfigsResource) -> bytes:
        return self._results.encoded_settings(_configs(self._node, resource, self._request))


def _configs(
    node: ClusterNode, resource: wire.DescribeConfigsResource, request: wire.DescribeConfigsRequest
) -> list[wire.DescribeConfigsResourceResult]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        _require(name, "Broker id must not be empty")
        _require_own(name, node.node_id, f"expected {node.node_id}")
        return list(described_loggers(resource.configuration_keys))
    return [
        entry.described(with_synonyms=request.include_synonyms, with_documentation=request.include_documentation)
        for entry in chosen(_entries(node, ResourceType.of(resource.resource_type), name), resource.configuration_keys)
    ]


def _entries(node: ClusterNode, kind: ResourceType, name: str) -> list[ConfigEntry]:
    texts = node.metadata.image.settings_of(kind, name)
    match kind:
        case ResourceType.TOPIC:
            return topic_entries(texts, node.config)
        case ResourceType.BROKER:
            if not name:
                return default_entries(node.config)
            _require_own(name, node.node_id, f"expected {node.node_id} or empty string,")
            return broker_entries(node.config)
        case ResourceType.CLIENT_METRICS:
            return client_metrics_entries(texts)
        case _:
            return group_entries(texts, node.config)


def _check_name(node: ClusterNode, kind: ResourceType, name: str) -> None:
    if kind is ResourceType.TOPIC:
        check_topic_name(name)
        if name not in node.metadata.image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif kind is ResourceType.CLIENT_METRICS:
        _require(name, "Client metrics subscription name must not be empty")
    else:
        _require(name, "Group name must not be empty")


def _require(name: str, refusal: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)


def _require_own(name: str, node_id: int, expected: str) -> None:
    if broker_number(name, f"Broker id must be an integer, but it is: {name}") != node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, {expected} but received {name}")


def _failure(resource: wire.DescribeConfigsResource, outcome: Outcome) -> wire.DescribeConfigsResult:
    return {
        "error_code": outcome.error,
        "error_message": outcome.message or "",
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def list_config_resources(
    node: ClusterNode, context: RequestContext, request: wire.ListConfigResourcesRequest
) -> wire.ListConfigResourcesResponse:
    node.authorizer.require(context, Operation.DESCRIBE_CONFIGS)
    asked = [ResourceType.CLIENT_METRICS] if context.version == 0 else request.resource_types or _LISTED
    if any(ResourceType.of(number) is ResourceType.UNKNOWN for number in asked):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    kinds = dict.fromkeys(map(ResourceType.of, asked))
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in kinds
            for name in sorted(_names(node.metadata.image, kind))
        ]
    }


def _names(image: MetadataImage, kind: ResourceType) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, image.brokers)
        case _:
            return [resource.name for resource in image.configs if resource.type is kind]
