# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict

class ListOffsetsPartition:
    partition_index: int
    current_leader_epoch: int
    timestamp: int

class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]

class ListOffsetsRequest:
    replica_id: int
    isolation_level: int
    topics: tuple[ListOffsetsTopic, ...]
    timeout: int

class ListOffsetsPartitionResponse(TypedDict, total=False):
    partition_index: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int

class ListOffsetsTopicResponse(TypedDict, total=False):
    name: str
    partitions: Iterable[ListOffsetsPartitionResponse]

class ListOffsetsResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[ListOffsetsTopicResponse]

class DeleteRecordsPartition:
    partition_index: int
    offset: int

class DeleteRecordsTopic:
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]

class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: int

class DeleteRecordsPartitionResult(TypedDict, total=False):
    partition_index: int
    low_watermark: int
    error_code: int

class DeleteRecordsTopicResult(TypedDict, total=False):
    name: str
    partitions: Iterable[DeleteRecordsPartitionResult]

class DeleteRecordsResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[DeleteRecordsTopicResult]

class OffsetForLeaderPartition:
    partition: int
    current_leader_epoch: int
    leader_epoch: int

class OffsetForLeaderTopic:
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]

class OffsetForLeaderEpochRequest:
    replica_id: int
    topics: tuple[OffsetForLeaderTopic, ...]

class EpochEndOffset(TypedDict, total=False):
    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int

class OffsetForLeaderTopicResult(TypedDict, total=False):
    topic: str
    partitions: Iterable[EpochEndOffset]

class OffsetForLeaderEpochResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[OffsetForLeaderTopicResult]

class AlterReplicaLogDirTopic:
    name: str
    partitions: tuple[int, ...]

class AlterReplicaLogDir:
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]

class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]

class AlterReplicaLogDirPartitionResult(TypedDict, total=False):
    partition_index: int
    error_code: int

class AlterReplicaLogDirTopicResult(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[AlterReplicaLogDirPartitionResult]

class AlterReplicaLogDirsResponse(TypedDict, total=False):
    throttle_time: int
    results: Iterable[AlterReplicaLogDirTopicResult]

class DescribableLogDirTopic:
    topic: str
    partitions: tuple[int, ...]

class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None

class DescribeLogDirsPartition(TypedDict, total=False):
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool

class DescribeLogDirsTopic(TypedDict, total=False):
    name: str
    partitions: Iterable[DescribeLogDirsPartition]

class DescribeLogDirsResult(TypedDict, total=False):
    error_code: int
    log_dir: str
    topics: Iterable[DescribeLogDirsTopic]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool

class DescribeLogDirsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    results: Iterable[DescribeLogDirsResult]

class TopicRequest:
    name: str
    partition_indexes: tuple[int, ...]

class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]

class ProducerState(TypedDict, total=False):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

class PartitionResponse(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None
    active_producers: Iterable[ProducerState]

class TopicResponse(TypedDict, total=False):
    name: str
    partitions: Iterable[PartitionResponse]

class DescribeProducersResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[TopicResponse]
