"""DeleteTopics: it deletes topics by name or, from version 6 on, by id.

==============================================  ======================================================================
in one request                                  INVALID_REQUEST for
==============================================  ======================================================================
neither a name nor an id, or both               the entry
a repeated name, a repeated id                  the topic, once
a name and the id of the same topic             the name; the topic stays
==============================================  ======================================================================

A client that may not delete a topic gets TOPIC_AUTHORIZATION_FAILED. If it may not describe the topic either, the
response hides the existence of a requested name, and the name of a requested id.

Source: Kafka's ``ControllerApis.deleteTopics``.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tidelog.model import TidelogError
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.server.authorization.authorizer import failure
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, topic
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.requests import TopicResult
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import topics as wire
    from tidelog.server.cluster_node import ClusterNode

_FIRST_WITH_DISABLED = 3
_FIRST_STRICT = 5
"""Older clients do not know THROTTLING_QUOTA_EXCEEDED: they are throttled instead."""
_DISABLED = "Topic deletion is disabled."


async def handle(
    node: ClusterNode, context: RequestContext, request: wire.DeleteTopicsRequest
) -> wire.DeleteTopicsResponse:
    if not node.config.flag("delete.topic.enable"):
        is_known = context.version >= _FIRST_WITH_DISABLED
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST, _DISABLED)
    refused, names, ids = valid_entries(request)
    names, ids = _permitted(node, context, names, ids, refused)
    names = _without_known_ids(node.metadata.image, names, ids, refused)
    wanted: list[str | uuid.UUID] = [*names, *ids]
    if node.quotas.limits_changes(context):
        wanted = [one for one in wanted if _may_delete(node, context, one, refused)]
    results = await node.controller.delete_topics(wanted, timeout_ms=request.timeout)
    return {"responses": [_result(result) for result in (*refused, *results)]}


def refuse(
    context: RequestContext, request: wire.DeleteTopicsRequest, error: TidelogError
) -> wire.DeleteTopicsResponse:
    code = error_code_of(error)
    keys: list[tuple[str | None, uuid.UUID | None]] = [(name, None) for name in request.topic_names]
    keys += [(asked.name, asked.topic_id) for asked in request.topics]
    return {"responses": [{"name": name, "topic_id": topic_id, "error_code": code} for name, topic_id in keys]}


def _may_delete(
    node: ClusterNode, context: RequestContext, wanted: str | uuid.UUID, refused: list[TopicResult]
) -> bool:
    """Return True if the topic does not exist or the client's quota allows its deletion. Else add it to ``refused``."""
    image = node.metadata.image
    found = image.topics.get(wanted) if isinstance(wanted, str) else image.topics_by_id.get(wanted)
    is_strict = context.version >= _FIRST_STRICT
    if found is None or node.quotas.may_change(context, len(found.partitions), is_strict=is_strict):
        return True
    refused.append(TopicResult(name=found.name, topic_id=found.id, error=ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    return False


def valid_entries(request: wire.DeleteTopicsRequest) -> tuple[list[TopicResult], list[str], list[uuid.UUID]]:
    """Return the results of invalid entries, and the names and ids of the others."""
    refused: list[TopicResult] = []
    names, ids = list(request.topic_names), list[uuid.UUID]()
    for asked in request.topics:
        if asked.name is None and asked.topic_id is None:
            refused.append(_refusal(None, None, "Neither topic name nor id were specified."))
        elif asked.topic_id is None:
            names.append(asked.name or "")
        elif asked.name is None:
            ids.append(asked.topic_id)
        else:
            refused.append(_refusal(asked.name, asked.topic_id, "You may not specify both topic name and topic id."))
    refused += [_refusal(name, None, "Duplicate topic name.") for name in _repeated(names)]
    refused += [_refusal(None, topic_id, "Duplicate topic id.") for topic_id in _repeated(ids)]
    return refused, [name for name, count in Counter(names).items() if count == 1], _once(ids)


def _permitted(
    node: ClusterNode, context: RequestContext, names: list[str], ids: list[uuid.UUID], refused: list[TopicResult]
) -> tuple[list[str], list[uuid.UUID]]:
    """Return the topics that the client may delete or that do not exist. Add the others to ``refused``."""
    authorizer, image = node.authorizer, node.metadata.image
    if authorizer.allows(context, Operation.DELETE, CLUSTER, log_denial=False):
        return names, ids
    known = {topic_id: image.topics_by_id[topic_id].name for topic_id in ids if topic_id in image.topics_by_id}
    everything = {*names, *known.values()}
    shown = authorizer.allowed(context, Operation.DESCRIBE, topic, everything)
    allowed = authorizer.allowed(context, Operation.DELETE, topic, everything)
    for topic_id, name in known.items():
        if name not in allowed:
            refused.append(_denied(name if name in shown else None, topic_id))
    denied = {name for name in names if name not in shown or (name in image.topics and name not in allowed)}
    refused += [_denied(name, None) for name in denied]
    return (
        [name for name in names if name not in denied],
        [topic_id for topic_id in ids if topic_id not in known or known[topic_id] in allowed],
    )


def _denied(name: str | None, topic_id: uuid.UUID | None) -> TopicResult:
    error = failure(AclResourceType.TOPIC)
    return TopicResult(name=name, topic_id=topic_id, error=error.code, message=error.message)


def _without_known_ids(
    image: MetadataImage, names: list[str], ids: list[uuid.UUID], refused: list[TopicResult]
) -> list[str]:
    """Return the names whose topic is not also requested by id. Remove the others' ids, so that neither is deleted."""
    kept = []
    for name in names:
        found = image.topics.get(name)
        if found is not None and found.id in ids:
            ids.remove(found.id)
            reason = "The provided topic name maps to an ID that was already supplied."
            refused.append(_refusal(name, found.id, reason))
        else:
            kept.append(name)
    return kept


def _repeated(items: Iterable[Any]) -> list[Any]:
    return [item for item, count in Counter(items).items() if count > 1]


def _once(items: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    return [item for item, count in Counter(items).items() if count == 1]


def _refusal(name: str | None, topic_id: uuid.UUID | None, message: str) -> TopicResult:
    return TopicResult(name=name, topic_id=topic_id, error=ErrorCode.INVALID_REQUEST, message=message)


def _result(result: TopicResult) -> wire.DeletableTopicResult:
    return {
        "name": result.name,
        "topic_id": result.topic_id,
        "error_code": result.error,
        "error_message": result.message,
    }
