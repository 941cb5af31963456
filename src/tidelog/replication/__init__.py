"""Replication's cores: state machines without I/O. Events go in, commands come out, and times are arguments."""

from tidelog.replication.alter_partitions import AlterPartitionBatch, AlterPartitionResult, AlterPartitions
from tidelog.replication.broker_lifecycle import BrokerLifecycle, LifecycleCommand, LifecycleSettings
from tidelog.replication.broker_sessions import BrokerSessions
from tidelog.replication.broker_state import BrokerState
from tidelog.replication.fetch_session_handler import (
    FetchResponseHead,
    FetchSessionHandler,
    SessionPartition,
    SessionRequest,
    WantedPartition,
)
from tidelog.replication.follower import Follower, Phase
from tidelog.replication.follower_commands import (
    Append,
    BackOff,
    Command,
    Commands,
    Fail,
    ListOffsets,
    NamedOffset,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
    TruncationCause,
)
from tidelog.replication.follower_events import FetchedPartition, FetchPosition, FollowedLeader, ListedPartition
from tidelog.replication.in_sync_replicas import (
    AdvanceHighWatermark,
    Brokers,
    InSyncReplicas,
    LeaderCommands,
    LeaderLog,
    ProposeIsr,
)
from tidelog.replication.isr_proposal import AlteredPartition, IsrMember, IsrProposal, LedPartition
from tidelog.replication.metadata_observer import MetadataObserver, MetadataReplica, ObserverSettings
from tidelog.replication.observer_messages import ObserverCommand
from tidelog.replication.replica_log import ReplicaEpochs, ReplicaLog
from tidelog.replication.replica_state import FollowerFetch, ReplicaState

__all__ = [
    "AdvanceHighWatermark",
    "AlterPartitionBatch",
    "AlterPartitionResult",
    "AlterPartitions",
    "AlteredPartition",
    "Append",
    "BackOff",
    "BrokerLifecycle",
    "BrokerSessions",
    "BrokerState",
    "Brokers",
    "Command",
    "Commands",
    "Fail",
    "FetchPosition",
    "FetchResponseHead",
    "FetchSessionHandler",
    "FetchedPartition",
    "FollowedLeader",
    "Follower",
    "FollowerFetch",
    "InSyncReplicas",
    "IsrMember",
    "IsrProposal",
    "LeaderCommands",
    "LeaderLog",
    "LedPartition",
    "LifecycleCommand",
    "LifecycleSettings",
    "ListOffsets",
    "ListedPartition",
    "MetadataObserver",
    "MetadataReplica",
    "NamedOffset",
    "ObserverCommand",
    "ObserverSettings",
    "Phase",
    "ProposeIsr",
    "RaiseLogStart",
    "ReplicaEpochs",
    "ReplicaLog",
    "ReplicaState",
    "SessionPartition",
    "SessionRequest",
    "SetHighWatermark",
    "TruncateFully",
    "TruncateTo",
    "TruncationCause",
    "WantedPartition",
]
