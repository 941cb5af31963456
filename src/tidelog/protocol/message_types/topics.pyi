# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict
from uuid import UUID

class CreatableReplicaAssignment:
    partition_index: int
    broker_ids: tuple[int, ...]

class CreatableTopicConfig:
    name: str
    value: str | None

class CreatableTopic:
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]

class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout: int
    validate_only: bool

class CreatableTopicConfigs(TypedDict, total=False):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool

class CreatableTopicResult(TypedDict, total=False):
    name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None
    topic_config_error_code: int
    num_partitions: int
    replication_factor: int
    configs: Iterable[CreatableTopicConfigs] | None

class CreateTopicsResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[CreatableTopicResult]

class DeleteTopicState:
    name: str | None
    topic_id: UUID | None

class DeleteTopicsRequest:
    topics: tuple[DeleteTopicState, ...]
    timeout: int
    topic_names: tuple[str, ...]

class DeletableTopicResult(TypedDict, total=False):
    name: str | None
    topic_id: UUID | None
    error_code: int
    error_message: str | None

class DeleteTopicsResponse(TypedDict, total=False):
    throttle_time: int
    responses: Iterable[DeletableTopicResult]

class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...]

class CreatePartitionsTopic:
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None

class CreatePartitionsRequest:
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: int
    validate_only: bool

class CreatePartitionsTopicResult(TypedDict, total=False):
    name: str
    error_code: int
    error_message: str | None

class CreatePartitionsResponse(TypedDict, total=False):
    throttle_time: int
    results: Iterable[CreatePartitionsTopicResult]

class TopicRequest:
    name: str

class DescribeTopicPartitionsRequestCursor:
    topic_name: str
    partition_index: int

class DescribeTopicPartitionsRequest:
    topics: tuple[TopicRequest, ...]
    response_partition_limit: int
    cursor: DescribeTopicPartitionsRequestCursor | None

class DescribeTopicPartitionsResponsePartition(TypedDict, total=False):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Iterable[int]
    isr_nodes: Iterable[int]
    eligible_leader_replicas: Iterable[int] | None
    last_known_elr: Iterable[int] | None
    offline_replicas: Iterable[int]

class DescribeTopicPartitionsResponseTopic(TypedDict, total=False):
    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: Iterable[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int

class DescribeTopicPartitionsResponseCursor(TypedDict, total=False):
    topic_name: str
    partition_index: int

class DescribeTopicPartitionsResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponseCursor | None

class TopicPartitions:
    topic: str
    partitions: tuple[int, ...]

class ElectLeadersRequest:
    election_type: int
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: int

class PartitionResult(TypedDict, total=False):
    partition_id: int
    error_code: int
    error_message: str | None

class ReplicaElectionResult(TypedDict, total=False):
    topic: str
    partition_result: Iterable[PartitionResult]

class ElectLeadersResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    replica_election_results: Iterable[ReplicaElectionResult]

class ReassignablePartition:
    partition_index: int
    replicas: tuple[int, ...] | None

class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]

class AlterPartitionReassignmentsRequest:
    timeout: int
    allow_replication_factor_change: bool
    topics: tuple[ReassignableTopic, ...]

class ReassignablePartitionResponse(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None

class ReassignableTopicResponse(TypedDict, total=False):
    name: str
    partitions: Iterable[ReassignablePartitionResponse]

class AlterPartitionReassignmentsResponse(TypedDict, total=False):
    throttle_time: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: Iterable[ReassignableTopicResponse]

class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: tuple[int, ...]

class ListPartitionReassignmentsRequest:
    timeout: int
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None

class OngoingPartitionReassignment(TypedDict, total=False):
    partition_index: int
    replicas: Iterable[int]
    adding_replicas: Iterable[int]
    removing_replicas: Iterable[int]

class OngoingTopicReassignment(TypedDict, total=False):
    name: str
    partitions: Iterable[OngoingPartitionReassignment]

class ListPartitionReassignmentsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    topics: Iterable[OngoingTopicReassignment]
