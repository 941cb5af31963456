"""The origin of an append, which decides the checks of its batches. Source: Kafka's ``AppendOrigin``."""

from __future__ import annotations

import enum


class AppendOrigin(enum.Enum):
    """
    ============  =====================  ===============  ==================
    origin        sequence               producer epoch   coordinator epoch
    ============  =====================  ===============  ==================
    CLIENT        checked                checked          checked
    COORDINATOR   not (it has none)      checked          checked
    REPLICATION   not (leader did it)    not              not
    RAFT_LEADER   not                    checked          checked
    ============  =====================  ===============  ==================

    Recovery replays a log as REPLICATION.
    """

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT_LEADER = "raft_leader"
