"""CreateTopics: it creates topics with counts or a manual assignment, and with configs.

Three kinds of names are refused before the controller is asked: repeated ones, the metadata topic's, and names that the
client may not create. The response has a topic's counts and configs only if the client may see its configs. Source:
Kafka's ``ControllerApis.createTopics``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TidelogError
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.protocol.errors import ErrorCode
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.authorizer import Authorizer
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, topic
from tidelog.server.configs.resource_entries import topic_entries
from tidelog.server.metadata.requests import NewTopic, Outcome, TopicResult
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import topics as wire
    from tidelog.server.cluster_node import ClusterNode

_AT_ONCE = 20
"""Results to encode before other tasks of the event loop get a turn: each may have its own configs."""
_FIRST_STRICT = 6
"""Older clients do not know THROTTLING_QUOTA_EXCEEDED: they are throttled instead."""


async def handle(
    node: ClusterNode, context: RequestContext, request: wire.CreateTopicsRequest
) -> wire.CreateTopicsResponse:
    refused = _refused(request)
    left = [asked.name for asked in request.topics if asked.name not in refused]
    refused |= _denied(node.authorizer, context, left)
    wanted = [_new_topic(asked) for asked in request.topics if asked.name not in refused]
    too_many: set[str] = set()
    timeout_ms = request.timeout
    if node.quotas.limits_changes(context):
        checked = await node.controller.create_topics(wanted, validate_only=True, timeout_ms=timeout_ms)
        too_many = too_many_partitions(node, context, checked)
        wanted = [new for new in wanted if new.name not in too_many]
    results = await node.controller.create_topics(wanted, validate_only=request.validate_only, timeout_ms=timeout_ms)
    names = [result.name for result in results if result.name is not None]
    shown = node.authorizer.allowed(context, Operation.DESCRIBE_CONFIGS, topic, names, log_denial=False)
    described = _Described(node.config, shown)
    return {
        "topics": [
            *[_result(result, described) async for result in yielding_to_loop(results, _AT_ONCE)],
            *(_refusal(name, outcome.error, outcome.message) for name, outcome in refused.items()),
            *(_refusal(name, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None) for name in too_many),
        ]
    }


def refuse(
    context: RequestContext, request: wire.CreateTopicsRequest, error: TidelogError
) -> wire.CreateTopicsResponse:
    outcome = Outcome.of(error)
    return {"topics": [_refusal(topic.name, outcome.error, outcome.message) for topic in request.topics]}


def too_many_partitions(node: ClusterNode, context: RequestContext, checked: Iterable[TopicResult]) -> set[str]:
    """Return the names of valid new topics that exceed the client's quota."""
    is_strict = context.version >= _FIRST_STRICT
    return {
        result.name
        for result in checked
        if result.name is not None
        and result.error is ErrorCode.NONE
        and not node.quotas.may_change(context, result.partitions, is_strict=is_strict)
    }


def _refused(request: wire.CreateTopicsRequest) -> dict[str, Outcome]:
    """Return the refused names and their errors."""
    times = Counter(asked.name for asked in request.topics)
    reasons = {name: "Duplicate topic name." for name, count in times.items() if count > 1}
    if times[CLUSTER_METADATA_TOPIC] == 1:
        reasons[CLUSTER_METADATA_TOPIC] = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
    return {name: Outcome(ErrorCode.INVALID_REQUEST, reason) for name, reason in reasons.items()}


def _denied(authorizer: Authorizer, context: RequestContext, names: Sequence[str]) -> dict[str, Outcome]:
    """Return the names that the client may not create. CREATE on the cluster allows every topic."""
    if authorizer.allows(context, Operation.CREATE, CLUSTER, log_denial=False):
        return {}
    allowed = authorizer.allowed(context, Operation.CREATE, topic, names)
    denied = Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    return {name: denied for name in names if name not in allowed}


def _new_topic(topic: wire.CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        configs={config.name: config.value for config in topic.configs},
    )


class _Described:
    """The counts and configs of new topics. Topics of one request with equal configs share one description."""

    def __init__(self, config: BrokerConfig, shown: Container[str | None]) -> None:
        """Create it. ``shown`` has the topics whose configs the client may see."""
        self._config = config
        self._shown = shown
        self._known: dict[frozenset[tuple[str, str]], list[wire.CreatableTopicConfigs]] = {}

    def of(self, result: TopicResult) -> wire.CreatableTopicResult:
        if result.name not in self._shown:
            return {
                "topic_config_error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                "num_partitions": -1,
                "replication_factor": -1,
                "configs": [],
            }
        return {
            "num_partitions": result.partitions,
            "replication_factor": result.replication_factor,
            "configs": self._settings(result.configs),
        }

    def _settings(self, texts: Mapping[str, str]) -> list[wire.CreatableTopicConfigs]:
        key = frozenset(texts.items())
        if key not in self._known:
            self._known[key] = [entry.created() for entry in topic_entries(texts, self._config)]
        return self._known[key]


def _result(result: TopicResult, described: _Described) -> wire.CreatableTopicResult:
    assert result.name is not None
    if result.error is not ErrorCode.NONE:
        return _refusal(result.name, result.error, result.message)
    return {"name": result.name, "topic_id": result.topic_id, "error_message": None, **described.of(result)}


def _refusal(name: str, code: ErrorCode, message: str | None) -> wire.CreatableTopicResult:
    return {"name": name, "error_code": code, "error_message": message}
