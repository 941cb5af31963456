"""Produce: it appends batches, and responds once as many replicas have them as ``acks`` requires.

=========  =========================================================================================================
acks       response
=========  =========================================================================================================
0          none; an error closes the connection, because the client has no other way to notice it
1          once this broker has the records
all        once all in-sync replicas have them, or REQUEST_TIMED_OUT
=========  =========================================================================================================

Each partition has a result of its own (``produced_part``). Most appends are made at once on the event loop. An append
is slow if it decompresses a large batch or waits for the disk. A slow one runs in a background thread, one after the
other, while the connection waits.

Thread rule: the event loop only. Source: Kafka's ``KafkaApis.handleProduceRequest``,
``ReplicaManager.handleProduceAppend``, ``DelayedProduce`` (KIP-467, KIP-890, KIP-951).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode, error_code_of
from tidelog.protocol.leader_hints import NodeEndpoint
from tidelog.protocol.produce import (
    ProduceRequest,
    TopicProduceData,
    TopicProduceResponse,
    read_produce_request,
    write_produce_response,
)
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import topic, transactional_id
from tidelog.server.handlers.data.leader_lookup import LeaderLookup
from tidelog.server.handlers.data.produced_part import ProducedPart, verify_parts
from tidelog.server.network.request_context import RequestContext
from tidelog.server.network.response import EncodedResponse
from tidelog.server.replicas.partition import ACKS_ALL
from tidelog.server.replicas.purgatory import wait_until

if TYPE_CHECKING:
    from tidelog.server.broker import Broker

ProduceResult = EncodedResponse | None

_NO_ACKS: Final = 0
_ADMIN_CLIENT: Final = "__admin_client"
"""The only client id that may append to internal topics."""
_FIRST_WITH_LEADER_HINTS: Final = 10


def read(_api: ApiKey, version: int, body: memoryview) -> ProduceRequest:
    return read_produce_request(version, body)


def refuse(_context: RequestContext, request: ProduceRequest, error: TidelogError) -> Mapping[str, Any]:
    """Return the error for every partition. With ``acks=0`` raise it again, which closes the connection."""
    if request.acks == _NO_ACKS:
        raise error
    code = error_code_of(error)
    responses = [
        {
            "name": data.name,
            "topic_id": data.topic_id,
            "partition_responses": [
                {"index": part.index, "error_code": code, "base_offset": -1} for part in data.partition_data
            ],
        }
        for data in request.topic_data
    ]
    return {"responses": responses}


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResult | Awaitable[ProduceResult]:
    context.client.is_exempt = request.acks == _NO_ACKS
    produce = _Produce(broker, context, request)
    produce.validate()
    pending = produce.pending
    for part in pending:
        if part.is_slow or part.is_transactional:
            return produce.run_slowly()
    for part in pending:
        part.append(request.acks)
    return produce.acknowledge()


class _Produce:
    """The handling of one request."""

    def __init__(self, broker: Broker, context: RequestContext, request: ProduceRequest) -> None:
        self._broker = broker
        self._context = context
        self._request = request
        self._topics: list[tuple[TopicProduceData, list[ProducedPart]]] = [
            (data, [ProducedPart(part) for part in data.partition_data]) for data in request.topic_data
        ]
        self._parts = [part for _topic, parts in self._topics for part in parts]

    @property
    def pending(self) -> list[ProducedPart]:
        """The parts without a result."""
        return [part for part in self._parts if part.result is None]

    def validate(self) -> None:
        """Check every part. Some are refused already."""
        if self._broker.authorizer.is_on:
            self._deny()
        replicas, version = self._broker.replicas, self._context.version
        is_administrator, has_transactional = self._context.client_id == _ADMIN_CLIENT, False
        for data, parts in self._topics:
            for part in parts:
                if part.result is None:
                    part.validate(replicas, data, version)
                    if not is_administrator:
                        part.require_public()
                has_transactional |= part.is_transactional
        if has_transactional and not self._may_use_transaction():
            for part in self._parts:
                part.refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if self._request.acks not in (ACKS_ALL, _NO_ACKS, 1):
            for part in self.pending:
                part.refuse(ErrorCode.INVALID_REQUIRED_ACKS)

    def _deny(self) -> None:
        """Refuse topics that the client may not write to, before they are looked up."""
        image = self._broker.metadata.image
        names = [image.topic_name(data.name, data.topic_id) for data, _parts in self._topics]
        allowed = self._broker.authorizer.allowed(self._context, Operation.WRITE, topic, filter(None, names))
        for name, (_data, parts) in zip(names, self._topics, strict=True):
            if name is not None and name not in allowed:
                for part in parts:
                    part.refuse_unauthorized(self._context.version)

    def _may_use_transaction(self) -> bool:
        name = self._request.transactional_id
        if name is None:
            return False
        return self._broker.authorizer.allows(self._context, Operation.WRITE, transactional_id(name))

    async def run_slowly(self) -> ProduceResult:
        """Verify the transaction with its coordinator, then append slow parts in a background thread."""
        if self._request.transactional_id is not None:
            verification = self._broker.transactions.verification
            await verify_parts(verification, self._request.transactional_id, self._context.version, self.pending)
        for part in self.pending:
            if part.is_slow:
                await part.append_in_thread(self._broker.in_thread, self._request.acks)
            else:
                part.append(self._request.acks)
        response = self.acknowledge()
        return await response if isinstance(response, Awaitable) else response

    def acknowledge(self) -> ProduceResult | Awaitable[ProduceResult]:
        """Return the response once enough replicas have the records."""
        if self._request.acks == ACKS_ALL:
            waiting = [part for part in self._parts if not part.is_replicated()]
            if waiting:
                return self._when_replicated(waiting)
        return self._respond()

    async def _when_replicated(self, waiting: Sequence[ProducedPart]) -> ProduceResult:
        partitions = {part.partition for part in waiting if part.partition is not None}
        met = await wait_until(
            lambda _changed: all(part.is_replicated() for part in waiting),
            partitions,
            self._broker.timers,
            self._request.timeout,
            is_replication=True,
        )
        if not met:
            for part in waiting:
                part.expire()
        return self._respond()

    # --- the response ---

    def _respond(self) -> ProduceResult:
        throttle_ms = self._broker.quotas.throttle(self._context, produced=self._context.size)
        if self._request.acks == _NO_ACKS:
            self._require_no_errors()
            return None
        endpoints = self._add_leader_hints() if self._context.version >= _FIRST_WITH_LEADER_HINTS else ()
        responses = [
            TopicProduceResponse(data.name, data.topic_id, [part.final_result for part in parts])
            for data, parts in self._topics
        ]
        return EncodedResponse([write_produce_response(self._context.version, responses, throttle_ms, endpoints)])

    def _add_leader_hints(self) -> Sequence[NodeEndpoint]:
        """Add the current leader to each NOT_LEADER_OR_FOLLOWER result. Return the leaders' endpoints."""
        leaders = None
        for data, parts in self._topics:
            for part in parts:
                if part.final_result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    leaders = leaders or LeaderLookup(self._broker.metadata.image, self._context.listener)
                    leader = leaders.leader_of(data.topic_id or data.name, part.index)
                    part.result = part.final_result._replace(current_leader=leader)
        return () if leaders is None else leaders.endpoints

    def _require_no_errors(self) -> None:
        errors = [
            f"{data.name or data.topic_id}-{part.index} -> {ErrorCode(part.result.error_code).name}"
            for data, parts in self._topics
            for part in parts
            if part.result is not None and part.result.error_code
        ]
        if errors:
            raise ApiError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Closing connection due to error during produce request with correlation id"
                f" {self._context.correlation_id} from client id {self._context.client_id} with ack=0:"
                f" {', '.join(errors)}",
            )
