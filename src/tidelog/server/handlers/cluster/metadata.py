"""Metadata: the brokers, and topics with their partitions and leaders; of all topics, or of some by name or by id.

=====================================  ===============================================================================
asked for                              answered
=====================================  ===============================================================================
a topic that is there                  its partitions
a name that is not there               UNKNOWN_TOPIC_OR_PARTITION; it is made, if the client and the broker want that
a name that cannot be                  INVALID_TOPIC_EXCEPTION
an id that is not there                UNKNOWN_TOPIC_ID
an id, or no name, before version 12   INVALID_REQUEST, whatever else is asked for
=====================================  ===============================================================================

Where an id is asked for, names are not looked at. Source: Kafka's ``KafkaApis.handleTopicMetadataRequest``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.schemas import Struct
from tidelog.server.answer import Answer
from tidelog.server.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from tidelog.server.metadata.image import MetadataImage, Topic
from tidelog.server.request_context import RequestContext
from tidelog.server.topic_name import is_internal, is_legal
from tidelog.server.topics.partition_view import Viewpoint

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

_FIRST_WITH_IDS = 12
_FIRST_WITHOUT_CLUSTER_OPERATIONS = 11
_FIRST_THAT_KNOWS_LISTENERS = 6
_NO_CONTROLLER = -1


def handle(broker: Broker, context: RequestContext, request: Struct) -> Answer:
    image, version = broker.metadata.image, context.version
    _check(request, version)
    names, unknown_ids = _wanted(image, request, version)
    missing = [name for name in names if name not in image.topics]
    if request.allow_auto_topic_creation and broker.config.flag("auto.create.topics.enable"):
        broker.automatic_topics.create(filter(is_legal, missing))
    viewpoint = Viewpoint(
        image=image,
        listener=context.listener,
        leaves_out_the_dead=version == 0,
        names_listeners=version >= _FIRST_THAT_KNOWS_LISTENERS,
    )
    operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    wants_operations = request.include_cluster_authorized_operations and version < _FIRST_WITHOUT_CLUSTER_OPERATIONS
    return {
        **_nodes(viewpoint, broker.node_id),
        "cluster_id": image.cluster_id,
        "topics": [
            *map(_unknown_id, unknown_ids),
            *(_topic(viewpoint, image.topics[name], operations) for name in names if name in image.topics),
            *(_missing(name, operations) for name in missing),
        ],
        "cluster_authorized_operations": ON_CLUSTER if wants_operations else NOT_ASKED,
    }


def refuse(context: RequestContext, request: Struct, error: TidelogError) -> Mapping[str, Any]:
    code = error_code_of(error)
    return {
        "controller_id": _NO_CONTROLLER,
        "topics": [
            {"error_code": code, "name": topic.name or "", "topic_id": topic.topic_id} for topic in request.topics or ()
        ],
    }


def _check(request: Struct, version: int) -> None:
    if version >= _FIRST_WITH_IDS:
        return
    for topic in request.topics or ():
        if topic.name is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic name can not be null for version {version}")
        if topic.topic_id is not None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Topic IDs are not supported in requests for version {version}")


def _wanted(image: MetadataImage, request: Struct, version: int) -> tuple[list[str], list[uuid.UUID]]:
    """Names of topics, there or not, and ids that are not there."""
    if request.topics is None or (version == 0 and not request.topics):
        return sorted(image.topics), []
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id is not None)
    if not ids:
        return list(dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)), []
    known = [image.topics_by_id[topic_id].name for topic_id in ids if topic_id in image.topics_by_id]
    return known, [topic_id for topic_id in ids if topic_id not in image.topics_by_id]


def _nodes(viewpoint: Viewpoint, own_id: int) -> dict[str, Any]:
    """The brokers; any of them may be called the controller, for each hands on what is for it."""
    nodes = viewpoint.nodes()
    ids = [node.id for node, _ in nodes]
    return {
        "brokers": [
            {"node_id": node.id, "host": endpoint.host, "port": endpoint.port, "rack": node.rack}
            for node, endpoint in nodes
        ],
        "controller_id": own_id if own_id in ids else next(iter(ids), _NO_CONTROLLER),
    }


def _topic(viewpoint: Viewpoint, topic: Topic, operations: int) -> Mapping[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": is_internal(topic.name),
        "partitions": viewpoint.partitions(topic),
        "topic_authorized_operations": operations,
    }


def _missing(name: str, operations: int) -> Mapping[str, Any]:
    return {
        "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION,
        "name": name,
        "is_internal": is_internal(name),
        "topic_authorized_operations": operations,
    }


def _unknown_id(topic_id: uuid.UUID) -> Mapping[str, Any]:
    return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": None, "topic_id": topic_id}
