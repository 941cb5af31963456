"""The comparison of a cluster's replicas, from the log directories of several of its brokers."""

from tidelog.inspect.compare.broker_directory import BrokerDirectory, read_broker_directories
from tidelog.inspect.compare.cluster_comparison import compare_cluster, pair_bytes
from tidelog.inspect.compare.difference import BatchPlace, Difference, DifferenceKind
from tidelog.inspect.compare.partition_comparison import ComparedPartition, ComparedReplica, ReplicaState
from tidelog.inspect.compare.placement import Placement, Role
from tidelog.inspect.compare.replica_choice import ChosenReplica, ChosenReplicas, choose_replicas, replicated

__all__ = [
    "BatchPlace",
    "BrokerDirectory",
    "ChosenReplica",
    "ChosenReplicas",
    "ComparedPartition",
    "ComparedReplica",
    "Difference",
    "DifferenceKind",
    "Placement",
    "ReplicaState",
    "Role",
    "choose_replicas",
    "compare_cluster",
    "pair_bytes",
    "read_broker_directories",
    "replicated",
]
