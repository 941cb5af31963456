# Written by `make map` from kio's classes.

from collections.abc import Iterable
from typing import TypedDict
from uuid import UUID

class BrokerState:
    broker_id: int
    broker_epoch: int

class AlterPartitionRequestPartitionData:
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[BrokerState, ...]
    leader_recovery_state: int
    partition_epoch: int
    new_isr: tuple[int, ...]

class AlterPartitionRequestTopicData:
    topic_id: UUID | None
    partitions: tuple[AlterPartitionRequestPartitionData, ...]

class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    topics: tuple[AlterPartitionRequestTopicData, ...]

class AlterPartitionResponsePartitionData(TypedDict, total=False):
    partition_index: int
    error_code: int
    leader_id: int
    leader_epoch: int
    isr: Iterable[int]
    leader_recovery_state: int
    partition_epoch: int

class AlterPartitionResponseTopicData(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AlterPartitionResponsePartitionData]

class AlterPartitionResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    topics: Iterable[AlterPartitionResponseTopicData]

class EnvelopeRequest:
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

class EnvelopeResponse(TypedDict, total=False):
    response_data: bytes | None
    error_code: int

class FetchSnapshotRequestSnapshotId:
    end_offset: int
    epoch: int

class FetchSnapshotRequestPartitionSnapshot:
    partition: int
    current_leader_epoch: int
    snapshot_id: FetchSnapshotRequestSnapshotId
    position: int
    replica_directory_id: UUID | None

class FetchSnapshotRequestTopicSnapshot:
    name: str
    partitions: tuple[FetchSnapshotRequestPartitionSnapshot, ...]

class FetchSnapshotRequest:
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: tuple[FetchSnapshotRequestTopicSnapshot, ...]

class FetchSnapshotResponseSnapshotId(TypedDict, total=False):
    end_offset: int
    epoch: int

class LeaderIdAndEpoch(TypedDict, total=False):
    leader_id: int
    leader_epoch: int

class FetchSnapshotResponsePartitionSnapshot(TypedDict, total=False):
    index: int
    error_code: int
    snapshot_id: FetchSnapshotResponseSnapshotId
    current_leader: LeaderIdAndEpoch
    size: int
    position: int
    unaligned_records: bytes

class FetchSnapshotResponseTopicSnapshot(TypedDict, total=False):
    name: str
    partitions: Iterable[FetchSnapshotResponsePartitionSnapshot]

class NodeEndpoint(TypedDict, total=False):
    node_id: int
    host: str
    port: int

class FetchSnapshotResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    topics: Iterable[FetchSnapshotResponseTopicSnapshot]
    node_endpoints: Iterable[NodeEndpoint]

class BrokerRegistrationRequestListener:
    name: str
    host: str
    port: int
    security_protocol: int

class BrokerRegistrationRequestFeature:
    name: str
    min_supported_version: int
    max_supported_version: int

class BrokerRegistrationRequest:
    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: tuple[BrokerRegistrationRequestListener, ...]
    features: tuple[BrokerRegistrationRequestFeature, ...]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: tuple[UUID, ...]
    previous_broker_epoch: int

class BrokerRegistrationResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    broker_epoch: int

class BrokerHeartbeatRequest:
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[UUID, ...]
    cordoned_log_dirs: tuple[UUID, ...] | None

class BrokerHeartbeatResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool

class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int

class AllocateProducerIdsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    producer_id_start: int
    producer_id_len: int

class ControllerRegistrationRequestListener:
    name: str
    host: str
    port: int
    security_protocol: int

class ControllerRegistrationRequestFeature:
    name: str
    min_supported_version: int
    max_supported_version: int

class ControllerRegistrationRequest:
    controller_id: int
    incarnation_id: UUID | None
    zk_migration_ready: bool
    listeners: tuple[ControllerRegistrationRequestListener, ...]
    features: tuple[ControllerRegistrationRequestFeature, ...]

class ControllerRegistrationResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    error_message: str | None

class AssignReplicasToDirsRequestPartitionData:
    partition_index: int

class AssignReplicasToDirsRequestTopicData:
    topic_id: UUID | None
    partitions: tuple[AssignReplicasToDirsRequestPartitionData, ...]

class AssignReplicasToDirsRequestDirectoryData:
    id_: UUID | None
    topics: tuple[AssignReplicasToDirsRequestTopicData, ...]

class AssignReplicasToDirsRequest:
    broker_id: int
    broker_epoch: int
    directories: tuple[AssignReplicasToDirsRequestDirectoryData, ...]

class AssignReplicasToDirsResponsePartitionData(TypedDict, total=False):
    partition_index: int
    error_code: int

class AssignReplicasToDirsResponseTopicData(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AssignReplicasToDirsResponsePartitionData]

class AssignReplicasToDirsResponseDirectoryData(TypedDict, total=False):
    id_: UUID | None
    topics: Iterable[AssignReplicasToDirsResponseTopicData]

class AssignReplicasToDirsResponse(TypedDict, total=False):
    throttle_time: int
    error_code: int
    directories: Iterable[AssignReplicasToDirsResponseDirectoryData]
