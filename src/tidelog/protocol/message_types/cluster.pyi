# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict
from uuid import UUID

class MetadataRequestTopic:
    topic_id: UUID | None
    name: str | None

class MetadataRequest:
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool
    include_topic_authorized_operations: bool
    include_cluster_authorized_operations: bool

class DescribeQuorumRequestPartitionData:
    partition_index: int

class DescribeQuorumRequestTopicData:
    topic_name: str
    partitions: tuple[DescribeQuorumRequestPartitionData, ...]

class DescribeQuorumRequest:
    topics: tuple[DescribeQuorumRequestTopicData, ...]

class ReplicaState(TypedDict, total=False):
    replica_id: int
    replica_directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int

class DescribeQuorumResponsePartitionData(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: Iterable[ReplicaState]
    observers: Iterable[ReplicaState]

class DescribeQuorumResponseTopicData(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[DescribeQuorumResponsePartitionData]

class Listener(TypedDict, total=False):
    name: str
    host: str
    port: int

class Node(TypedDict, total=False):
    node_id: int
    listeners: Iterable[Listener]

class DescribeQuorumResponse(TypedDict, total=False):
    error_code: int
    error_message: str | None
    topics: Iterable[DescribeQuorumResponseTopicData]
    nodes: Iterable[Node]

class FeatureUpdateKey:
    feature: str
    max_version_level: int
    upgrade_type: int
    allow_downgrade: bool

class UpdateFeaturesRequest:
    timeout: int
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool

class UpdatableFeatureResult(TypedDict, total=False):
    feature: str
    error_code: int
    error_message: str | None

class UpdateFeaturesResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    results: Iterable[UpdatableFeatureResult]

class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool

class DescribeClusterBroker(TypedDict, total=False):
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool

class DescribeClusterResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: Iterable[DescribeClusterBroker]
    cluster_authorized_operations: int

class UnregisterBrokerRequest:
    broker_id: int

class UnregisterBrokerResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
