"""ElectLeaders: it elects the preferred replica or, in an unclean election, any live one (KIP-460).

Version 0 knows only preferred leaders. If the request is for all partitions, the response has every topic, with the
partitions for which an election was tried. A request that waits longer than its timeout gets REQUEST_TIMED_OUT, and
nothing is elected. A request for no topics does not wait. Source: Kafka's ``QuorumController.electLeaders``,
``ReplicationControlManager.electLeaders``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.requests import ElectionType, Outcome
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import topics as wire
    from tidelog.server.cluster_node import ClusterNode


async def handle(
    node: ClusterNode, context: RequestContext, request: wire.ElectLeadersRequest
) -> wire.ElectLeadersResponse:
    node.authorizer.require(context, Operation.ALTER)
    asked = request.topic_partitions
    if asked is None:
        outcomes = await _elected(node, request, None)
        others = node.metadata.image.topics.keys() - {name.topic for name in outcomes}
        return {"replica_election_results": [*_by_topic(outcomes), *(_result(topic, []) for topic in others)]}
    if not asked:
        return {"replica_election_results": []}
    partitions = [TopicPartition(topic.topic, number) for topic in asked for number in topic.partitions]
    return {"replica_election_results": _in_request_order(asked, await _elected(node, request, partitions))}


def refuse(
    context: RequestContext, request: wire.ElectLeadersRequest, error: TidelogError
) -> wire.ElectLeadersResponse:
    outcome = Outcome.of(error)
    results = _in_request_order(request.topic_partitions or (), defaultdict(lambda: outcome))
    return {"error_code": outcome.error, "replica_election_results": results}


async def _elected(
    node: ClusterNode, request: wire.ElectLeadersRequest, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, Outcome]:
    kind = request.election_type
    if kind not in tuple(ElectionType):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
    return await node.controller.elect_leaders(ElectionType(kind), partitions, timeout_ms=request.timeout)


def _in_request_order(
    asked: Sequence[wire.TopicPartitions], outcomes: Mapping[TopicPartition, Outcome]
) -> list[wire.ReplicaElectionResult]:
    return [
        _result(topic.topic, [(number, outcomes[TopicPartition(topic.topic, number)]) for number in topic.partitions])
        for topic in asked
    ]


def _by_topic(outcomes: Mapping[TopicPartition, Outcome]) -> list[wire.ReplicaElectionResult]:
    rows = sorted((name.topic, name.partition, outcome) for name, outcome in outcomes.items())
    groups = groupby(rows, key=itemgetter(0))
    return [_result(topic, [(number, outcome) for _, number, outcome in group]) for topic, group in groups]


def _result(topic: str, partitions: Sequence[tuple[int, Outcome]]) -> wire.ReplicaElectionResult:
    return {
        "topic": topic,
        "partition_result": [
            {"partition_id": number, "error_code": outcome.error, "error_message": outcome.message}
            for number, outcome in partitions
        ],
    }
