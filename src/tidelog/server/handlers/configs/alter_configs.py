"""AlterConfigs: it replaces all configs of a resource. Configs that the request omits are removed.

Source: Kafka's ``KafkaApis.handleAlterConfigsRequest``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.handlers.configs.alterations import (
    Identity,
    answers,
    check_broker,
    check_values,
    config_resource,
    guarded,
    refusals,
    require_broker,
    resources_in,
)
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.requests import Outcome
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    outcomes: dict[Identity, Outcome] = {}
    wanted: dict[ConfigResource, Mapping[str, str]] = {}
    for identity, struct in resources_in(request).items():
        try:
            check_values(struct, struct.configs)
            resource = config_resource(identity)
            texts = {config.name: config.value for config in struct.configs}
            if resource.type is ResourceType.BROKER:
                require_broker(broker.authorizer, context)
                check_broker(resource, texts, config=broker.config, node_id=broker.node_id)
            broker.authorizer.require(context, Operation.ALTER_CONFIGS, guarded(identity))
        except TidelogError as error:
            outcomes[identity] = Outcome.of(error)
        else:
            wanted[resource] = texts
    if wanted:
        replaced = await broker.metadata.replace_configs(wanted, validate_only=request.validate_only)
        outcomes.update(replaced.items())
    return {"responses": answers(request, outcomes)}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"responses": refusals(request, error)}
