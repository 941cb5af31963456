# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict
from uuid import UUID

class OffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None

class OffsetCommitRequestTopic:
    topic_id: UUID | None
    partitions: tuple[OffsetCommitRequestPartition, ...]
    name: str

class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: int

class OffsetCommitResponsePartition(TypedDict, total=False):
    partition_index: int
    error_code: int

class OffsetCommitResponseTopic(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[OffsetCommitResponsePartition]
    name: str

class OffsetCommitResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[OffsetCommitResponseTopic]

class OffsetFetchRequestTopics:
    topic_id: UUID | None
    partition_indexes: tuple[int, ...]
    name: str

class OffsetFetchRequestGroup:
    group_id: str
    member_id: str | None
    member_epoch: int
    topics: tuple[OffsetFetchRequestTopics, ...] | None

class OffsetFetchRequestTopic:
    name: str
    partition_indexes: tuple[int, ...]

class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool
    group_id: str
    topics: tuple[OffsetFetchRequestTopic, ...] | None

class OffsetFetchResponsePartitions(TypedDict, total=False):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

class OffsetFetchResponseTopics(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[OffsetFetchResponsePartitions]
    name: str

class OffsetFetchResponseGroup(TypedDict, total=False):
    group_id: str
    topics: Iterable[OffsetFetchResponseTopics]
    error_code: int

class OffsetFetchResponsePartition(TypedDict, total=False):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

class OffsetFetchResponseTopic(TypedDict, total=False):
    name: str
    partitions: Iterable[OffsetFetchResponsePartition]

class OffsetFetchResponse(TypedDict, total=False):
    throttle_time: int
    groups: Iterable[OffsetFetchResponseGroup]
    topics: Iterable[OffsetFetchResponseTopic]
    error_code: int

class FindCoordinatorRequest:
    key_type: int
    coordinator_keys: tuple[str, ...]
    key: str

class Coordinator(TypedDict, total=False):
    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None

class FindCoordinatorResponse(TypedDict, total=False):
    throttle_time: int
    coordinators: Iterable[Coordinator]
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int

class JoinGroupRequestProtocol:
    name: str
    metadata: bytes

class JoinGroupRequest:
    group_id: str
    session_timeout: int
    rebalance_timeout: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None

class JoinGroupResponseMember(TypedDict, total=False):
    member_id: str
    group_instance_id: str | None
    metadata: bytes

class JoinGroupResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: Iterable[JoinGroupResponseMember]

class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None

class HeartbeatResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int

class MemberIdentity:
    member_id: str
    group_instance_id: str | None
    reason: str | None

class LeaveGroupRequest:
    group_id: str
    members: tuple[MemberIdentity, ...]
    member_id: str

class MemberResponse(TypedDict, total=False):
    member_id: str
    group_instance_id: str | None
    error_code: int

class LeaveGroupResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    members: Iterable[MemberResponse]

class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes

class SyncGroupRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[SyncGroupRequestAssignment, ...]

class SyncGroupResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes

class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool

class DescribedGroupMember(TypedDict, total=False):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes

class DescribeGroupsResponseDescribedGroup(TypedDict, total=False):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: Iterable[DescribedGroupMember]
    authorized_operations: int

class DescribeGroupsResponse(TypedDict, total=False):
    throttle_time: int
    groups: Iterable[DescribeGroupsResponseDescribedGroup]

class ListGroupsRequest:
    states_filter: tuple[str, ...]
    types_filter: tuple[str, ...]

class ListedGroup(TypedDict, total=False):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str

class ListGroupsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    groups: Iterable[ListedGroup]

class DeleteGroupsRequest:
    groups_names: tuple[str, ...]

class DeletableGroupResult(TypedDict, total=False):
    group_id: str
    error_code: int

class DeleteGroupsResponse(TypedDict, total=False):
    throttle_time: int
    results: Iterable[DeletableGroupResult]

class TxnOffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None

class TxnOffsetCommitRequestTopic:
    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]

class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]

class TxnOffsetCommitResponsePartition(TypedDict, total=False):
    partition_index: int
    error_code: int

class TxnOffsetCommitResponseTopic(TypedDict, total=False):
    name: str
    partitions: Iterable[TxnOffsetCommitResponsePartition]

class TxnOffsetCommitResponse(TypedDict, total=False):
    throttle_time: int
    topics: Iterable[TxnOffsetCommitResponseTopic]

class OffsetDeleteRequestPartition:
    partition_index: int

class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]

class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]

class OffsetDeleteResponsePartition(TypedDict, total=False):
    partition_index: int
    error_code: int

class OffsetDeleteResponseTopic(TypedDict, total=False):
    name: str
    partitions: Iterable[OffsetDeleteResponsePartition]

class OffsetDeleteResponse(TypedDict, total=False):
    error_code: int
    throttle_time: int
    topics: Iterable[OffsetDeleteResponseTopic]

class ConsumerGroupHeartbeatRequestTopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: int
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None

class ConsumerGroupHeartbeatResponseTopicPartitions(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[int]

class ConsumerGroupHeartbeatResponseAssignment(TypedDict, total=False):
    topic_partitions: Iterable[ConsumerGroupHeartbeatResponseTopicPartitions]

class ConsumerGroupHeartbeatResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: int
    assignment: ConsumerGroupHeartbeatResponseAssignment | None

class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool

class ConsumerGroupDescribeResponseTopicPartitions(TypedDict, total=False):
    topic_id: UUID | None
    topic_name: str
    partitions: Iterable[int]

class ConsumerGroupDescribeResponseAssignment(TypedDict, total=False):
    topic_partitions: Iterable[ConsumerGroupDescribeResponseTopicPartitions]

class Member(TypedDict, total=False):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: Iterable[str]
    subscribed_topic_regex: str | None
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: int

class ConsumerGroupDescribeResponseDescribedGroup(TypedDict, total=False):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Iterable[Member]
    authorized_operations: int

class ConsumerGroupDescribeResponse(TypedDict, total=False):
    throttle_time: int
    groups: Iterable[ConsumerGroupDescribeResponseDescribedGroup]
