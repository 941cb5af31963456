"""ListConfigResources (KIP-714, KIP-1142): the config resources by type.

====================  ================================================================================================
topics                all
brokers, loggers      those of each broker
groups, client        those with at least one config
metrics
====================  ================================================================================================

Version 0 is ListClientMetricsResources. Source: Kafka's ``KafkaApis.handleListConfigResources``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import configs as wire
    from tidelog.server.broker import Broker

_LISTED = tuple(kind for kind in ResourceType if kind is not ResourceType.UNKNOWN)


def handle(
    broker: Broker, context: RequestContext, request: wire.ListConfigResourcesRequest
) -> wire.ListConfigResourcesResponse:
    broker.authorizer.require(context, Operation.DESCRIBE_CONFIGS)
    asked = [ResourceType.CLIENT_METRICS] if context.version == 0 else request.resource_types or _LISTED
    if any(ResourceType.of(number) is ResourceType.UNKNOWN for number in asked):
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    kinds = dict.fromkeys(map(ResourceType.of, asked))
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in kinds
            for name in sorted(_names(broker.metadata.image, kind))
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
