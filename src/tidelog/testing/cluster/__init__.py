"""Several brokers and a controller in a test's own process, and the faults between them."""

from tidelog.testing.cluster.cluster import Cluster
from tidelog.testing.cluster.cluster_nodes import CONTROLLER

__all__ = ["CONTROLLER", "Cluster"]
