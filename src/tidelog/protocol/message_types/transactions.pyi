# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict

class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout: int
    producer_id: int
    producer_epoch: int

class InitProducerIdResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    producer_id: int
    producer_epoch: int

class AddPartitionsToTxnTopic:
    name: str
    partitions: tuple[int, ...]

class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]

class AddPartitionsToTxnRequest:
    transactions: tuple[AddPartitionsToTxnTransaction, ...]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]

class AddPartitionsToTxnPartitionResult(TypedDict, total=False):
    partition_index: int
    partition_error_code: int

class AddPartitionsToTxnTopicResult(TypedDict, total=False):
    name: str
    results_by_partition: Iterable[AddPartitionsToTxnPartitionResult]

class AddPartitionsToTxnResult(TypedDict, total=False):
    transactional_id: str
    topic_results: Iterable[AddPartitionsToTxnTopicResult]

class AddPartitionsToTxnResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    results_by_transaction: Iterable[AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: Iterable[AddPartitionsToTxnTopicResult]

class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str

class AddOffsetsToTxnResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int

class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

class EndTxnResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    producer_id: int
    producer_epoch: int

class WritableTxnMarkerTopic:
    name: str
    partition_indexes: tuple[int, ...]

class WritableTxnMarker:
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int

class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]

class WritableTxnMarkerPartitionResult(TypedDict, total=False):
    partition_index: int
    error_code: int

class WritableTxnMarkerTopicResult(TypedDict, total=False):
    name: str
    partitions: Iterable[WritableTxnMarkerPartitionResult]

class WritableTxnMarkerResult(TypedDict, total=False):
    producer_id: int
    topics: Iterable[WritableTxnMarkerTopicResult]

class WriteTxnMarkersResponse(TypedDict, total=False):
    markers: Iterable[WritableTxnMarkerResult]

class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]

class TopicData(TypedDict, total=False):
    topic: str
    partitions: Iterable[int]

class DescribeTransactionsResponseTransactionState(TypedDict, total=False):
    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout: int
    transaction_start_time: int
    producer_id: int
    producer_epoch: int
    topics: Iterable[TopicData]

class DescribeTransactionsResponse(TypedDict, total=False):
    throttle_time: int
    transaction_states: Iterable[DescribeTransactionsResponseTransactionState]

class ListTransactionsRequest:
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]
    duration_filter: int
    transactional_id_pattern: str | None

class ListTransactionsResponseTransactionState(TypedDict, total=False):
    transactional_id: str
    producer_id: int
    transaction_state: str

class ListTransactionsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    unknown_state_filters: Iterable[str]
    transaction_states: Iterable[ListTransactionsResponseTransactionState]
