"""IncrementalAlterConfigs: it sets and deletes single configs, and edits lists (KIP-339).

Log levels change at once on this broker. The controller changes everything else, after this broker has validated its
own configs. Source: Kafka's ``KafkaApis.handleIncrementalAlterConfigsRequest``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.operation import Operation
from tidelog.server.configs.broker_name import broker_number
from tidelog.server.configs.changes import SettingChange, changed
from tidelog.server.configs.loggers import alter_loggers
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.handlers.configs.alterations import (
    Identity,
    after_changes,
    answers,
    check_broker,
    check_lists,
    config_resource,
    guarded,
    refusals,
    require_broker,
    resources_in,
    setting_changes,
)
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.requests import DONE, Outcome
from tidelog.server.request_context import RequestContext
from tidelog.server.response import Response

if TYPE_CHECKING:
    from tidelog.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: Struct) -> Response:
    outcomes: dict[Identity, Outcome] = {}
    wanted: dict[ConfigResource, Sequence[SettingChange]] = {}
    for identity, resource in resources_in(request).items():
        try:
            changes = setting_changes(resource)
            if identity[0] == ResourceType.BROKER_LOGGER:
                require_broker(broker.authorizer, context)
                _alter_loggers(broker, identity[1], changes, validate_only=request.validate_only)
                outcomes[identity] = DONE
            else:
                checked = _checked(broker, context, identity, changes)
                broker.authorizer.require(context, Operation.ALTER_CONFIGS, guarded(identity))
                wanted[checked] = changes
        except TidelogError as error:
            outcomes[identity] = Outcome.of(error)
    if wanted:
        altered = await broker.metadata.alter_configs(wanted, validate_only=request.validate_only)
        outcomes.update(altered.items())
    return {"responses": answers(request, outcomes)}


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    return {"responses": refusals(request, error)}


def _checked(
    broker: Broker, context: RequestContext, identity: Identity, changes: Sequence[SettingChange]
) -> ConfigResource:
    resource = config_resource(identity)
    if resource.type is ResourceType.BROKER:
        require_broker(broker.authorizer, context)
        check_lists(changes)
        before = broker.metadata.image.settings_of(resource.type, resource.name)
        after = after_changes(before, changed(resource.type, before, changes))
        check_broker(resource, after, config=broker.config, node_id=broker.node_id)
    return resource


def _alter_loggers(broker: Broker, name: str, changes: Sequence[SettingChange], *, validate_only: bool) -> None:
    if broker_number(name, f"Node id must be an integer, but it is: {name}") != broker.node_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {broker.node_id}, but received {name}")
    alter_loggers(changes, validate_only=validate_only)
