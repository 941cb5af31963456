"""Broker keys of streams groups (KIP-1071).

The columns are the fields of ``Key``.
"""

from __future__ import annotations

from tidelog.config.columns import (
    BOOLEAN,
    CHECKED,
    CLASS,
    CLUSTER_WIDE,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
)
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, ITEMS, SOME_ITEMS, at_least

# fmt: off
STREAMS_KEYS = table(
    Key("group.streams.acceptable.recovery.lag", LONG, 10_000, at_least(0), MEDIUM, READ_ONLY,
        "How many offsets a client may be behind and still take over an active task.", internal=True),
    Key("group.streams.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a streams group waits between two assignments."),
    Key("group.streams.assignor.offload.enable", BOOLEAN, True, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether a background thread computes the assignments of streams groups.", internal=True),
    Key("group.streams.assignors", LIST, ("sticky",), SOME_ITEMS, MEDIUM, READ_ONLY,
        "Task assignors of streams groups on the server side; the first is the default.", effect=CHECKED),
    Key("group.streams.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "How often members of a streams group send heartbeats.", effect=CHECKED),
    Key("group.streams.initial.rebalance.delay.ms", INT, 3000, at_least(0), MEDIUM, READ_ONLY,
        "How long a new streams group waits for more members before its first rebalance."),
    Key("group.streams.max.assignment.interval.ms", INT, 15_000, at_least(0), MEDIUM, READ_ONLY,
        "The largest assignment interval a streams group may set.", effect=CHECKED),
    Key("group.streams.max.heartbeat.interval.ms", INT, 15_000, at_least(1), MEDIUM, READ_ONLY,
        "The largest heartbeat interval a streams group may set.", effect=CHECKED),
    Key("group.streams.max.session.timeout.ms", INT, 60_000, at_least(1), MEDIUM, READ_ONLY,
        "The largest session timeout a streams group may set.", effect=CHECKED),
    Key("group.streams.max.size", INT, INT_MAX, at_least(1), MEDIUM, READ_ONLY,
        "Members one streams group may have."),
    Key("group.streams.max.standby.replicas", INT, 2, at_least(0), MEDIUM, READ_ONLY,
        "The most standby replicas a streams group may set.", effect=CHECKED),
    Key("group.streams.max.warmup.replicas", INT, 20, at_least(0), MEDIUM, READ_ONLY,
        "The largest number of warm-up replicas a streams group may set.", effect=CHECKED, internal=True),
    Key("group.streams.min.assignment.interval.ms", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "The smallest assignment interval a streams group may set.", effect=CHECKED),
    Key("group.streams.min.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, READ_ONLY,
        "The smallest heartbeat interval a streams group may set.", effect=CHECKED),
    Key("group.streams.min.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "The smallest session timeout a streams group may set.", effect=CHECKED),
    Key("group.streams.min.task.offset.interval.ms", INT, 15_000, at_least(1), MEDIUM, READ_ONLY,
        "The smallest interval of task offsets a streams group may set.", effect=CHECKED, internal=True),
    Key("group.streams.num.standby.replicas", INT, 0, at_least(0), MEDIUM, READ_ONLY,
        "Standby replicas of each task of a streams group."),
    Key("group.streams.num.warmup.replicas", INT, 2, at_least(0), MEDIUM, READ_ONLY,
        "Warm-up replicas of a streams group.", internal=True),
    Key("group.streams.rack.aware.assignment.tags", LIST, (), ITEMS, LOW, READ_ONLY,
        "Client tags over which the standby replicas of a streams group are spread."),
    Key("group.streams.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, READ_ONLY,
        "A member of a streams group that is silent for this long is removed.", effect=CHECKED),
    Key("group.streams.task.offset.interval.ms", INT, 60_000, at_least(1), MEDIUM, READ_ONLY,
        "How often clients report the offsets of warm-up tasks.", internal=True),
    Key("group.streams.topology.description.plugin.class", CLASS, None, ANY, MEDIUM, READ_ONLY,
        "Class that keeps descriptions of the topologies of streams groups."),
)
# fmt: on
