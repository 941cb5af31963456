"""DescribeProducers: the producers in a partition's producer state, and their open transactions.

Thread rule: the event loop only. Source: Kafka's ``KafkaApis.handleDescribeProducersRequest`` (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.errors import error_code_of
from tidelog.server.authorization.authorizer import failure
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, topic
from tidelog.server.network.request_context import RequestContext
from tidelog.storage.producer import ProducerEntry

if TYPE_CHECKING:
    from tidelog.protocol.message_types import data as wire
    from tidelog.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: wire.DescribeProducersRequest
) -> wire.DescribeProducersResponse:
    return {"topics": [{"name": one.name, "partitions": _partitions(broker, context, one)} for one in request.topics]}


def _partitions(broker: Broker, context: RequestContext, asked: wire.TopicRequest) -> list[wire.PartitionResponse]:
    numbers = dict.fromkeys(asked.partition_indexes)
    if broker.authorizer.allows(context, Operation.READ, topic(asked.name)):
        return [_describe(broker, TopicPartition(asked.name, number)) for number in numbers]
    error = failure(AclResourceType.TOPIC)
    return [{"partition_index": number, "error_code": error.code, "error_message": error.message} for number in numbers]


def _describe(broker: Broker, name: TopicPartition) -> wire.PartitionResponse:
    try:
        producers = broker.replicas.partition(name).log.producers
    except TidelogError as error:
        return {"partition_index": name.partition, "error_code": error_code_of(error), "error_message": None}
    found = [_producer(entry) for entry in list(producers.values())]
    return {"partition_index": name.partition, "error_code": 0, "error_message": None, "active_producers": found}


def _producer(entry: ProducerEntry) -> wire.ProducerState:
    first_offset = entry.transaction_first_offset
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "last_sequence": entry.last_sequence,
        "last_timestamp": entry.last_timestamp,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_start_offset": -1 if first_offset is None else first_offset,
    }
