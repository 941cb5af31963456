"""The controller's own work, which no request begins, for a controller of several brokers.

The elections of ``periodic_tasks``, and a check for stale brokers every eighth of ``broker.session.timeout.ms``: it
fences brokers whose sessions have expired, one after the other.

If the process was stopped for a while, heartbeats may wait in the sockets. So a check for stale brokers that comes very
late, half a session, is left out: the heartbeats count first. Thread rule: the event loop only. Source: Kafka's
``QuorumController``.
"""

from __future__ import annotations

from tidelog.config.broker_config import BrokerConfig
from tidelog.server.metadata.controller.periodic_tasks import PeriodicTask, election_tasks
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata


def tasks_of(controller: ClusterMetadata, config: BrokerConfig) -> list[PeriodicTask]:
    """Return the tasks of a controller that other brokers can reach."""
    brokers = controller.remote_brokers
    stale = PeriodicTask(
        name="fence stale brokers",
        interval_ms=brokers.check_interval_ms,
        step=brokers.fence_stale,
        skips_if_late=True,
    )
    elections = election_tasks(
        config, elect_leaderless=controller.elect_leaderless, balance_leaders=controller.balance_leaders
    )
    return [stale, *elections]
