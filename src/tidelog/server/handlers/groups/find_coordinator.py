"""FindCoordinator: the brokers that coordinate groups or transactional ids; one key up to v3.

=====================================  =========================================================================
the internal topic                     result
=====================================  =========================================================================
does not exist                         it is created with the broker's configs, and then looked up
has a leader for the key's partition   that broker, at the listener of the request
has none, or cannot be created         COORDINATOR_NOT_AVAILABLE: the client retries
=====================================  =========================================================================

A key that the client may not describe gets an error of its own, and no topic is created for it. Share groups (key type
2) are not supported: INVALID_REQUEST.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.authorizer import failure
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import Resource, group, transactional_id
from tidelog.server.network.request_context import RequestContext
from tidelog.server.topics.internal_topics import automatic_topic, partition_of

if TYPE_CHECKING:
    from tidelog.protocol.message_types import groups as wire
    from tidelog.server.broker import Broker

_log = logging.getLogger(__name__)

_SEVERAL_KEYS = 4
_TOPICS = {0: GROUP_METADATA_TOPIC, 1: TRANSACTION_STATE_TOPIC}
_RESOURCES = {0: group, 1: transactional_id}
"""The authorization resources by key type."""
_NO_BROKER: Final[wire.Coordinator] = {"node_id": -1, "host": "", "port": -1}


async def handle(
    broker: Broker, context: RequestContext, request: wire.FindCoordinatorRequest
) -> wire.FindCoordinatorResponse:
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    keys = [request.key] if context.version < _SEVERAL_KEYS else request.coordinator_keys
    resource = _RESOURCES[request.key_type]
    allowed = broker.authorizer.allowed(context, Operation.DESCRIBE, resource, keys)
    await _prepare(broker, topic, allowed)
    found = [
        _coordinator(broker, context, topic, key) if key in allowed else _denied(context, resource(key))
        async for key in yielding_to_loop(keys)
    ]
    if context.version < _SEVERAL_KEYS:
        return _single(found[0])
    return {"coordinators": [{**one, "key": key} for key, one in zip(keys, found, strict=True)]}


async def _prepare(broker: Broker, topic: str, keys: Collection[str]) -> None:
    """Create the topic if it is missing, and prepare the partitions of ``keys`` that are led here."""
    if keys and topic not in broker.metadata.image.topics:
        await _create(broker, topic)
    wanted = {_partition_of(broker, topic, key) async for key in yielding_to_loop(keys)}
    for partition in wanted:
        await _write_topic_id(broker, partition)


def _denied(context: RequestContext, resource: Resource) -> wire.Coordinator:
    """Return the authorization error; from v4 on without a message."""
    error = failure(resource.type)
    message = error.message if context.version < _SEVERAL_KEYS else ""
    return {**_NO_BROKER, "error_code": error.code, "error_message": message}


def refuse(
    context: RequestContext, request: wire.FindCoordinatorRequest, error: TidelogError
) -> wire.FindCoordinatorResponse:
    failed: wire.Coordinator = {**_NO_BROKER, "error_code": error_code_of(error), "error_message": error.message}
    if context.version < _SEVERAL_KEYS:
        return _single(failed)
    return {"coordinators": [{**failed, "key": key} for key in request.coordinator_keys]}


def _single(one: wire.Coordinator) -> wire.FindCoordinatorResponse:
    """Return the response for one key, up to v3."""
    return {
        "error_code": one["error_code"],
        "error_message": one["error_message"],
        "node_id": one["node_id"],
        "host": one["host"],
        "port": one["port"],
    }


async def _create(broker: Broker, topic: str) -> None:
    """Create the topic. Raise ApiError(COORDINATOR_NOT_AVAILABLE) if that fails, or if the controller is away."""
    try:
        (result,) = await broker.metadata.create_topics([automatic_topic(topic, broker.config)])
    except TidelogError as error:
        _log.warning("Topic %s cannot be created: %s", topic, error)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
    if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        _log.warning("Topic %s cannot be created: %s", topic, result.message)
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _partition_of(broker: Broker, topic: str, key: str) -> TopicPartition:
    made = broker.metadata.image.topics.get(topic)
    if made is None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"this broker does not know topic {topic} yet")
    return TopicPartition(topic, partition_of(key, len(made.partitions)))


async def _write_topic_id(broker: Broker, partition: TopicPartition) -> None:
    """Write the topic id in a background thread now: a first append on the event loop would wait for the disk."""
    log = broker.logs.log(partition)
    if log is not None and log.append_waits_for_disk and broker.replicas.is_led(partition):
        await broker.in_thread(log.write_topic_id)


def _coordinator(broker: Broker, context: RequestContext, topic: str, key: str) -> wire.Coordinator:
    image = broker.metadata.image
    state = image.partition(_partition_of(broker, topic, key))
    leader = None if state is None else image.brokers.get(state.leader)
    endpoint = None if leader is None else leader.listeners.get(context.listener)
    if leader is None or endpoint is None:
        message = "The coordinator is not available." if context.version < _SEVERAL_KEYS else ""
        return {**_NO_BROKER, "error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE, "error_message": message}
    return {
        "error_code": ErrorCode.NONE,
        "error_message": ErrorCode.NONE.name if context.version < _SEVERAL_KEYS else "",
        "node_id": leader.id,
        "host": endpoint.host,
        "port": endpoint.port,
    }
