"""A cluster with visible and hidden resources, created in the same way on every broker.

A case may allow a user access to ``t``, ``g``, ``k`` and ``x``. No case allows access to resources named ``hidden``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.authorization.acl import Acl
from tidelog.testing.broker.loop_thread import PATIENCE_S

TOPIC, GROUP, CONSUMERS, TRANSACTION = "t", "g", "k", "x"
HIDDEN: Final = "hidden"
"""The name of a topic, a group and a transaction."""
HIDDEN_CONSUMERS: Final = "hidden-k"
MEMBER: Final = "member-of-a-group"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_WAIT = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
TRANSACTION_MS: Final = 600_000


class World:
    """``ids`` contains the topic ids, and ``producers`` the producer id and epoch of each transaction."""

    def __init__(self, client: WireClient) -> None:
        """Use the connection of a super user."""
        self.client = client
        self.ids: dict[str, UUID] = {}
        self.producers: dict[str, tuple[int, int]] = {}

    def make(self) -> None:
        self._make_topics()
        for name in (GROUP, HIDDEN):
            self._commit(name)
        for name, topic in ((CONSUMERS, TOPIC), (HIDDEN_CONSUMERS, HIDDEN)):
            self._join(name, topic)
        for name in (TRANSACTION, HIDDEN):
            self._begin(name)

    def allow(self, acls: Iterable[Acl]) -> None:
        """Create ACLs and return when the broker applies them."""
        creations = [
            {
                "resource_type": acl.pattern.resource_type,
                "resource_name": acl.pattern.name,
                "resource_pattern_type": acl.pattern.type,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
            for acl in acls
        ]
        answer = self.client.call(ApiKey.CREATE_ACLS, creations=creations)
        assert {result.error_code for result in answer.results} == {0}, answer
        deadline = time.monotonic() + PATIENCE_S
        while self.count_acls() < len(creations):
            assert time.monotonic() < deadline, "the broker does not learn of its access control lists"
            time.sleep(0.05)

    def count_acls(self) -> int:
        kinds = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        answer = self.client.call(ApiKey.DESCRIBE_ACLS, **kinds, **names)
        return sum(len(resource.acls) for resource in answer.resources)

    def find(self, kind: int, key: str) -> None:
        """Find the coordinator, which is available from then on."""
        self._until(
            lambda answer: answer.coordinators[0].error_code,
            ApiKey.FIND_COORDINATOR,
            key_type=kind,
            coordinator_keys=[key],
        )

    def init(self, transaction: str) -> tuple[int, int]:
        """Return the id and epoch of the transaction's producer."""
        self.find(1, transaction)
        made = self._until(
            lambda answer: answer.error_code,
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=transaction,
            transaction_timeout=TRANSACTION_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        return made.producer_id, made.producer_epoch

    # --- helpers ---

    def _make_topics(self) -> None:
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (TOPIC, HIDDEN)]
        made = self.client.call(ApiKey.CREATE_TOPICS, topics=topics, timeout=10_000).topics
        self.ids = {topic.name: topic.topic_id for topic in made}
        for name in self.ids:
            asked = {"partition_index": 0, "timestamp": -1}
            self._until(
                lambda answer: answer.topics[0].partitions[0].error_code,
                ApiKey.LIST_OFFSETS,
                replica_id=-1,
                topics=[{"name": name, "partitions": [asked]}],
            )

    def _commit(self, group: str) -> None:
        self.find(0, group)
        topics = [
            {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 0}]} for name in (TOPIC, HIDDEN)
        ]
        self._until(
            lambda answer: answer.topics[0].partitions[0].error_code,
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=group,
            topics=topics,
        )

    def _join(self, group: str, topic: str) -> None:
        self._until(
            lambda answer: answer.error_code,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            group_id=group,
            member_id=MEMBER,
            member_epoch=0,
            rebalance_timeout=300_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )

    def _begin(self, transaction: str) -> None:
        producer_id, epoch = self.producers[transaction] = self.init(transaction)
        self._until(
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=transaction,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[{"name": name, "partitions": [0]} for name in (TOPIC, HIDDEN)],
        )

    def _until(self, error_of: Any, api: ApiKey, version: int | None = None, **values: Any) -> Struct:
        """Repeat the request until the response contains no transient error."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.client.call(api, version, **values)
            error = error_of(answer)
            if not error:
                return answer
            assert error in _WAIT, (api, answer)
            assert time.monotonic() < deadline, (api, answer)
            time.sleep(0.05)
