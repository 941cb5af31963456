"""Replication's cores: state machines without I/O. Events go in, commands come out, and times are arguments."""

from tidelog.replication.broker_lifecycle import BrokerLifecycle, LifecycleCommand, LifecycleSettings
from tidelog.replication.broker_sessions import BrokerSessions
from tidelog.replication.broker_state import BrokerState
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
from tidelog.replication.replica_log import ReplicaEpochs, ReplicaLog

__all__ = [
    "Append",
    "BackOff",
    "BrokerLifecycle",
    "BrokerSessions",
    "BrokerState",
    "Command",
    "Commands",
    "Fail",
    "FetchPosition",
    "FetchedPartition",
    "FollowedLeader",
    "Follower",
    "LifecycleCommand",
    "LifecycleSettings",
    "ListOffsets",
    "ListedPartition",
    "NamedOffset",
    "Phase",
    "RaiseLogStart",
    "ReplicaEpochs",
    "ReplicaLog",
    "SetHighWatermark",
    "TruncateFully",
    "TruncateTo",
    "TruncationCause",
]
