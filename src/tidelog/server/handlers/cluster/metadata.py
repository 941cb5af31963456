"""Metadata: the brokers, and all topics, or some by name or id, with their partitions and leaders.

=====================================  ===============================================================================
requested                              result
=====================================  ===============================================================================
an existing topic                      its partitions
an unknown name                        UNKNOWN_TOPIC_OR_PARTITION; created if the client and the broker want that, or
                                       TOPIC_AUTHORIZATION_FAILED if the client may not create it
an illegal name                        INVALID_TOPIC_EXCEPTION
an unknown id                          UNKNOWN_TOPIC_ID
an id, or no name, before version 12   INVALID_REQUEST for the whole request
neither id nor name, from version 12   UNKNOWN_SERVER_ERROR for the whole request, if it has no ids at all
a name that is not authorized          TOPIC_AUTHORIZATION_FAILED, whether the topic exists or not
an id whose topic is not authorized    the same, without the name
=====================================  ===============================================================================

If a request has an id, its names are ignored. A request for all topics gets only topics that the client may describe.
Source: Kafka's ``KafkaApis.handleTopicMetadataRequest``.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.metadata import (
    NOT_REQUESTED,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
    write_metadata_response,
    write_partition,
    write_topics,
)
from tidelog.protocol.topic_name import is_legal
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, topic
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse, Response
from tidelog.server.topics.partition_view import Viewpoint

if TYPE_CHECKING:
    from tidelog.protocol.message_types import cluster as wire
    from tidelog.server.broker import Broker

_FIRST_WITH_IDS = 12
_FIRST_WITHOUT_CLUSTER_OPERATIONS = 11
_FIRST_THAT_KNOWS_LISTENERS = 6
_NO_CONTROLLER = -1


def handle(broker: Broker, context: RequestContext, request: wire.MetadataRequest) -> Response:
    image, version = broker.metadata.image, context.version
    _check(request, version)
    viewpoint = Viewpoint(
        image=image,
        listener=context.listener,
        leaves_out_the_dead=version == 0,
        names_listeners=version >= _FIRST_THAT_KNOWS_LISTENERS,
    )
    operations = _Operations(broker.authorizer, context, is_asked=request.include_topic_authorized_operations)
    if _is_of_all(request, version):
        topics = _all_topics(broker, context, viewpoint, operations)
    else:
        topics = _some_topics(broker, context, request, viewpoint, operations)
    wants_operations = request.include_cluster_authorized_operations and version < _FIRST_WITHOUT_CLUSTER_OPERATIONS
    response = MetadataResponse(
        brokers=_nodes(viewpoint),
        cluster_id=image.cluster_id,
        controller_id=viewpoint.any_node(),
        topics=topics,
        cluster_authorized_operations=operations.on_cluster() if wants_operations else NOT_REQUESTED,
        throttle_time=broker.quotas.throttle(context),
    )
    return EncodedResponse([write_metadata_response(version, response)])


def refuse(context: RequestContext, request: wire.MetadataRequest, error: TidelogError) -> Mapping[str, Any]:
    code = error_code_of(error)
    return {
        "error_code": code,
        "controller_id": _NO_CONTROLLER,
        "topics": [
            {"error_code": code, "name": asked.name or "", "topic_id": asked.topic_id} for asked in request.topics or ()
        ],
    }


def _all_topics(broker: Broker, context: RequestContext, viewpoint: Viewpoint, operations: _Operations) -> bytes:
    """Return the encoded topics that the client may describe. Without an authorizer all clients get the same."""
    image, version = viewpoint.image, context.version

    def encode() -> bytes:
        names = sorted(image.topics)
        shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, names, log_denial=False)
        partitions = _EncodedPartitions(viewpoint, version)
        return write_topics(
            version, [_topic(image.topics[name], partitions, operations) for name in names if name in shown]
        )

    if broker.authorizer.is_on:
        return encode()
    return broker.kept_topics.get(image, (version, context.listener, operations.is_asked), encode)


def _some_topics(
    broker: Broker,
    context: RequestContext,
    request: wire.MetadataRequest,
    viewpoint: Viewpoint,
    operations: _Operations,
) -> bytes:
    """Return the encoded topics of a request that names them. Missing ones may be created."""
    image, version = viewpoint.image, context.version
    names, unknown_ids = _wanted(image, request)
    shown = broker.authorizer.allowed(context, Operation.DESCRIBE, topic, names)
    missing = [name for name in names if name in shown and name not in image.topics]
    uncreatable: Collection[str] = ()
    if missing and request.allow_auto_topic_creation and broker.config.flag("auto.create.topics.enable"):
        uncreatable = _uncreatable(broker.authorizer, context, missing)
        missing = [name for name in missing if name not in uncreatable]
        broker.automatic_topics.create(filter(is_legal, missing))
    partitions = _EncodedPartitions(viewpoint, version)
    topics = [
        *map(_unknown_id, unknown_ids),
        *(
            _topic(image.topics[name], partitions, operations)
            for name in names
            if name in shown and name in image.topics
        ),
        *(_missing(name, operations) for name in missing),
        *(_denied(name, is_internal=name in INTERNAL_TOPICS) for name in uncreatable),
        *(_hidden(image, request, name) for name in names if name not in shown),
    ]
    return write_topics(version, topics)


def _check(request: wire.MetadataRequest, version: int) -> None:
    if version >= _FIRST_WITH_IDS:
        named = [asked.name for asked in request.topics or () if asked.topic_id is None]
        if None in named and len(named) == len(request.topics or ()):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "A topic in the request has neither a name nor an id.")
        return
    for asked in request.topics or ():
        if asked.name is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if asked.topic_id is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}")


def _is_of_all(request: wire.MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _wanted(image: MetadataImage, request: wire.MetadataRequest) -> tuple[list[str], list[uuid.UUID]]:
    """Return the requested topic names, existing or not, and the unknown ids."""
    asked_for = request.topics or ()
    ids = dict.fromkeys(asked.topic_id for asked in asked_for if asked.topic_id is not None)
    if not ids:
        return list(dict.fromkeys(asked.name for asked in asked_for if asked.name is not None)), []
    known = [image.topics_by_id[topic_id].name for topic_id in ids if topic_id in image.topics_by_id]
    return known, [topic_id for topic_id in ids if topic_id not in image.topics_by_id]


def _uncreatable(authorizer: Authorizer, context: RequestContext, missing: Sequence[str]) -> list[str]:
    if authorizer.allows(context, Operation.CREATE, CLUSTER, log_denial=False):
        return []
    creatable = authorizer.allowed(context, Operation.CREATE, topic, missing)
    return [name for name in missing if name not in creatable]


class _Operations:
    """The operations that the client may do, if it asks for them."""

    def __init__(self, authorizer: Authorizer, context: RequestContext, *, is_asked: bool) -> None:
        self._authorizer = authorizer
        self._context = context
        self.is_asked = is_asked

    def on_topic(self, name: str) -> int:
        return self._authorizer.operations(self._context, topic(name)) if self.is_asked else NOT_REQUESTED

    def on_cluster(self) -> int:
        may_see = self._authorizer.allows(self._context, Operation.DESCRIBE, CLUSTER)
        return self._authorizer.operations(self._context, CLUSTER) if may_see else 0


class _EncodedPartitions:
    """The encoded partitions of one response. Most topics have equal partitions, so each is encoded once."""

    def __init__(self, viewpoint: Viewpoint, version: int) -> None:
        self._viewpoint = viewpoint
        self._version = version
        self._known: dict[object, bytes] = {}
        """The encoded partitions by all values that they depend on."""

    def of_topic(self, found: Topic) -> list[bytes]:
        known, encoded = self._known, []
        for number, state in sorted(found.partitions.items()):
            key = (number, state.leader, state.leader_epoch, state.replicas, state.isr, state.directories)
            partition = known.get(key)
            if partition is None:
                described = self._viewpoint.partition(number, state)
                partition = known[key] = write_partition(self._version, described)
            encoded.append(partition)
        return encoded


def _nodes(viewpoint: Viewpoint) -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(node.id, endpoint.host, endpoint.port, node.rack) for node, endpoint in viewpoint.nodes()
    ]


def _topic(found: Topic, partitions: _EncodedPartitions, operations: _Operations) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=found.name,
        topic_id=found.id,
        is_internal=found.name in INTERNAL_TOPICS,
        partitions=partitions.of_topic(found),
        topic_authorized_operations=operations.on_topic(found.name),
    )


def _missing(name: str, operations: _Operations) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations.on_topic(name),
    )


def _hidden(image: MetadataImage, request: wire.MetadataRequest, name: str) -> MetadataResponseTopic:
    """Return the error of a topic that the client may not describe. A request by id must not learn the name."""
    if any(asked.topic_id is not None for asked in request.topics or ()):
        return _denied(None)._replace(topic_id=image.topics[name].id)
    return _denied(name)


def _denied(name: str | None, *, is_internal: bool = False) -> MetadataResponseTopic:
    return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=is_internal)


def _unknown_id(topic_id: uuid.UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id)
