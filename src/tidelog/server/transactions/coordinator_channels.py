"""The coordinators of all transactional ids: this broker's own, and those of other brokers by AddPartitionsToTxn.

A broker has one request in flight to each other coordinator. Questions that come meanwhile share the next request, one
for each transactional id. A producer that asks again before its earlier question is sent has retried or was replaced:

===================================  =================================  ==============================================
the new question                     the earlier one gets               the new one
===================================  =================================  ==============================================
has a later producer epoch           INVALID_PRODUCER_EPOCH             takes its place
has the same producer epoch          NETWORK_EXCEPTION, to retry        takes its place
has an earlier producer epoch        (waits on)                         gets INVALID_PRODUCER_EPOCH
===================================  =================================  ==============================================

The response of a coordinator on another broker gives each partition of a question this result:

===================================  =================================================================================
response                             result
===================================  =================================================================================
results by transaction               the partition's own code
CLUSTER_AUTHORIZATION_FAILED         INVALID_TXN_STATE: clients cannot know the brokers' own error
another error of the request         that error
none: the connection has failed      NETWORK_EXCEPTION
none: authentication has failed      SASL_AUTHENTICATION_FAILED
none: it is older than version 4     NONE: it cannot verify
===================================  =================================================================================

A transactional id whose partition has no live leader gets COORDINATOR_NOT_AVAILABLE. A crash loses only questions, and
the producers ask again. Thread rule: the event loop only. Source: Kafka's ``AddPartitionsToTxnManager`` (KIP-890).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidelog.model import TidelogError, TopicPartition
from tidelog.model.topic_partition import partitions_by_topic
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode, code_of, error_code_of
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import Timers
from tidelog.server.topics.node import SendToBroker
from tidelog.server.transactions.transaction_metrics import VerificationMeters
from tidelog.server.transactions.verification import Coordinator, Membership, Operation

_log = logging.getLogger(__name__)

PURPOSE: Final = "transaction verification"
_FROM_BROKERS_SINCE: Final = 4
"""The first version of AddPartitionsToTxn with many transactions."""
_OF_FAILURES: Final = {
    ErrorCode.UNSUPPORTED_VERSION: ErrorCode.NONE,
    ErrorCode.SASL_AUTHENTICATION_FAILED: ErrorCode.SASL_AUTHENTICATION_FAILED,
}
"""The results after requests without a response; any other failure is NETWORK_EXCEPTION."""

Errors = Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLookup:
    """The way from a transactional id to its coordinator."""

    node_id: int
    """The id of this broker."""
    coordinator_of: Callable[[str], int | None]
    """Returns the live broker that leads the id's partition, or None."""
    send: SendToBroker


@dataclass(slots=True, kw_only=True, eq=False)
class _Question:
    membership: Membership
    partitions: tuple[TopicPartition, ...]
    errors: asyncio.Future[Errors]

    def answer(self, error: ErrorCode) -> None:
        """Return one error for all partitions."""
        self.answer_each(dict.fromkeys(self.partitions, error))

    def answer_each(self, errors: Errors) -> None:
        if not self.errors.done():  # the request of the client may be gone
            self.errors.set_result(errors)


class CoordinatorChannels:
    """Implements ``verification.Coordinator`` for all transactional ids."""

    def __init__(self, own: Coordinator, lookup: CoordinatorLookup, *, timers: Timers, spawn: Spawn) -> None:
        self._own = own
        self._lookup = lookup
        self._timers = timers
        self._spawn = spawn
        self.meters = VerificationMeters()
        self._waiting: dict[int, dict[str, _Question]] = {}
        """The questions that are in no request yet, by broker and transactional id."""
        self._asking: set[int] = set()
        """The brokers with a request in flight."""

    async def partition_errors(self, membership: Membership, partitions: Collection[TopicPartition]) -> Errors:
        """Implement ``verification.Coordinator``."""
        broker_id = self._lookup.coordinator_of(membership.transactional_id)
        if broker_id is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        begun_ms = self._timers.monotonic_ms()
        found = await self._errors(broker_id, membership, partitions)
        self.meters.note(found.values(), self._timers.monotonic_ms() - begun_ms)
        return found

    async def _errors(self, broker_id: int, membership: Membership, partitions: Collection[TopicPartition]) -> Errors:
        if broker_id == self._lookup.node_id:
            return await self._own.partition_errors(membership, partitions)
        errors: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        self._ask(broker_id, _Question(membership=membership, partitions=tuple(partitions), errors=errors))
        return await errors

    def _ask(self, broker_id: int, question: _Question) -> None:
        waiting = self._waiting.setdefault(broker_id, {})
        earlier = waiting.get(question.membership.transactional_id)
        if earlier is not None:
            known, new = earlier.membership.producer.producer_epoch, question.membership.producer.producer_epoch
            if new < known:
                question.answer(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            earlier.answer(ErrorCode.INVALID_PRODUCER_EPOCH if new > known else ErrorCode.NETWORK_EXCEPTION)
        waiting[question.membership.transactional_id] = question
        if broker_id not in self._asking:
            self._asking.add(broker_id)
            self._spawn(self._ask_all(broker_id))

    async def _ask_all(self, broker_id: int) -> None:
        try:
            while questions := self._waiting.pop(broker_id, None):
                await self._send(broker_id, questions)
        finally:
            self._asking.discard(broker_id)

    async def _send(self, broker_id: int, questions: Mapping[str, _Question]) -> None:
        request = {"transactions": [_fields(question) for question in questions.values()]}
        try:
            response = await self._lookup.send(
                broker_id,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                request,
                purpose=PURPOSE,
                at_least=_FROM_BROKERS_SINCE,
            )
        except TidelogError as error:
            result = _OF_FAILURES.get(error_code_of(error), ErrorCode.NETWORK_EXCEPTION)
            _log.warning("%d transactions are not verified: %s", len(questions), error)
            _answer_all(questions.values(), result)
            return
        if response.error_code:
            code = code_of(response.error_code)
            _log.error("Broker %d refused to verify %d transactions: %s", broker_id, len(questions), code.name)
            is_own = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            _answer_all(questions.values(), ErrorCode.INVALID_TXN_STATE if is_own else code)
            return
        results = {result.transactional_id: _codes(result) for result in response.results_by_transaction}
        for name, question in questions.items():
            found = results.get(name, {})
            question.answer_each({one: found.get(one, ErrorCode.NETWORK_EXCEPTION) for one in question.partitions})


def _answer_all(questions: Iterable[_Question], error: ErrorCode) -> None:
    for question in questions:
        question.answer(error)


def _fields(question: _Question) -> dict[str, Any]:
    membership = question.membership
    return {
        "transactional_id": membership.transactional_id,
        "producer_id": membership.producer.producer_id,
        "producer_epoch": membership.producer.producer_epoch,
        "verify_only": membership.operation is not Operation.ADD,
        "topics": [
            {"name": topic, "partitions": numbers}
            for topic, numbers in partitions_by_topic(question.partitions).items()
        ],
    }


def _codes(result: Any) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, one.partition_index): code_of(one.partition_error_code)
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
