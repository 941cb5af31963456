"""Requests about transactions and producer ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from server.authorization.case import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Case,
    Values,
    asked,
    committed,
    on_cluster,
    on_group,
    on_topic,
    on_transaction,
    producer_of,
)
from server.authorization.world import GROUP, HIDDEN, TOPIC, TRANSACTION, World
from tidelog.protocol.api_key import ApiKey
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import PatternType


def transactions() -> Iterator[Case]:
    described = asked(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": [TRANSACTION, HIDDEN, "none-such"]})
    yield described.by("denied", denial=TRANSACTION_DENIED)
    yield described.by("denied the topics", on_transaction(Operation.DESCRIBE), denial=TRANSACTION_DENIED)
    seeing = (on_transaction(Operation.DESCRIBE), on_topic(Operation.DESCRIBE))
    yield described.by("allowed", *seeing, denial=TRANSACTION_DENIED)
    yield asked(ApiKey.LIST_TRANSACTIONS, {"duration_filter": -1}).by("denied")
    yield asked(ApiKey.LIST_TRANSACTIONS, {"duration_filter": -1}).by("allowed", on_transaction(Operation.DESCRIBE))


def producer_ids() -> Iterator[Case]:
    idempotent = asked(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": None, "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
        name="of an idempotent producer",
    )
    yield idempotent.by("denied", denial=CLUSTER_DENIED)
    yield idempotent.by("allowed by the cluster", on_cluster(Operation.IDEMPOTENT_WRITE))
    yield idempotent.by("allowed by a topic", on_topic(Operation.WRITE, "some", pattern=PatternType.PREFIXED))
    yield idempotent.by("allowed to see", on_topic(Operation.DESCRIBE, "*"), denial=CLUSTER_DENIED)
    transactional = asked(
        ApiKey.INIT_PRODUCER_ID,
        {"transactional_id": "y", "transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
        name="of a transaction",
    )
    yield transactional.by("denied", denial=TRANSACTION_DENIED)
    yield transactional.by("allowed", on_transaction(Operation.WRITE, "y"))


def added_partitions() -> Iterator[Case]:
    def adding(*topics: str) -> Callable[[World], Values]:
        return lambda world: {
            "v3_and_below_transactional_id": TRANSACTION,
            **{f"v3_and_below_{name}": value for name, value in producer_of(world).items()},
            "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in topics],
        }

    added = asked(ApiKey.ADD_PARTITIONS_TO_TXN, adding(TOPIC, HIDDEN, "none-such"), version=3)
    yield added.by("denied", denial=TRANSACTION_DENIED)
    yield added.by("denied the topics", on_transaction(Operation.WRITE), denial=TOPIC_DENIED)
    yield added.by("denied a topic", on_transaction(Operation.WRITE), on_topic(Operation.WRITE), denial=TOPIC_DENIED)
    internal = asked(ApiKey.ADD_PARTITIONS_TO_TXN, adding("__consumer_offsets"), version=3, name="of an internal topic")
    yield internal.by("denied", on_transaction(Operation.WRITE), on_topic(Operation.ALL, "*"), denial=TOPIC_DENIED)
    writing = (on_transaction(Operation.WRITE), on_topic(Operation.WRITE))
    yield asked(ApiKey.ADD_PARTITIONS_TO_TXN, adding(TOPIC), version=3, name="of one topic").by("allowed", *writing)
    by_brokers = asked(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        lambda world: {
            "transactions": [
                {
                    "transactional_id": TRANSACTION,
                    **producer_of(world),
                    "verify_only": True,
                    "topics": [{"name": TOPIC, "partitions": [0]}],
                }
            ]
        },
        name="by a broker",
    )
    yield by_brokers.by("denied", denial=CLUSTER_DENIED)
    yield by_brokers.by("allowed", on_cluster(Operation.CLUSTER_ACTION))


def offsets_and_markers() -> Iterator[Case]:
    offsets = asked(
        ApiKey.ADD_OFFSETS_TO_TXN,
        lambda world: {"transactional_id": TRANSACTION, **producer_of(world), "group_id": GROUP},
    )
    yield offsets.by("denied", denial=TRANSACTION_DENIED)
    yield offsets.by("denied the group", on_transaction(Operation.WRITE), denial=GROUP_DENIED)
    yield offsets.by("allowed", on_transaction(Operation.WRITE), on_group(Operation.READ))
    committing = asked(
        ApiKey.TXN_OFFSET_COMMIT,
        lambda world: {
            "transactional_id": TRANSACTION,
            "group_id": GROUP,
            **producer_of(world),
            "topics": [committed(TOPIC), committed(HIDDEN)],
        },
        version=4,
    )
    yield committing.by("denied", denial=TRANSACTION_DENIED)
    yield committing.by("denied the group", on_transaction(Operation.WRITE), denial=GROUP_DENIED)
    both = (on_transaction(Operation.WRITE), on_group(Operation.READ))
    yield committing.by("denied the topics", *both, denial=TOPIC_DENIED)
    yield committing.by("allowed", *both, on_topic(Operation.READ), denial=TOPIC_DENIED)
    markers = asked(
        ApiKey.WRITE_TXN_MARKERS,
        {
            "markers": [
                {
                    "producer_id": 99_999,
                    "producer_epoch": 0,
                    "transaction_result": False,
                    "topics": [{"name": name, "partition_indexes": [0]} for name in ("none-such",)],
                    "coordinator_epoch": 0,
                }
            ]
        },
    )
    yield markers.by("denied", denial=CLUSTER_DENIED)
    yield markers.by("allowed", on_cluster(Operation.CLUSTER_ACTION))
    yield markers.by("allowed to alter", on_cluster(Operation.ALTER))
