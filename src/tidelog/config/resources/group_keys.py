"""Every setting of a group in Kafka 4.4 (``GroupConfig``); all can change while it is in use.

The columns are the fields of ``Key``. For most settings the broker has a key with the default, ``group.`` and the name.
Its keys with ``min`` or ``max`` in the name are bounds for the groups' settings.
"""

from __future__ import annotations

from tidelog.config.columns import BOOLEAN, CHECKED, CLUSTER_WIDE, INT, LIST, LONG, LOW, MEDIUM, STRING, USED
from tidelog.config.key import Key, table
from tidelog.config.resources.offset_reset import OffsetReset
from tidelog.config.valid import ANY, ITEMS, at_least, one_of

# fmt: off
GROUP_KEYS = table(
    Key("consumer.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long the group waits between two assignments.", effect=USED),
    Key("consumer.assignor.offload.enable", BOOLEAN, True, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether a background thread computes the group's assignments.", internal=True),
    Key("consumer.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often the members of a consumer group send heartbeats.", effect=USED),
    Key("consumer.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A member of a consumer group that is silent for this long is removed.", effect=USED),
    Key("errors.deadletterqueue.copy.record.enable", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether a record in a share group's dead-letter queue has the key and the value of the original."),
    Key("errors.deadletterqueue.topic.name", STRING, "", ANY, MEDIUM, CLUSTER_WIDE,
        "The dead-letter queue topic of a share group; none where empty.", effect=CHECKED),
    Key("share.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a share group waits between two assignments.", effect=CHECKED),
    Key("share.assignor.offload.enable", BOOLEAN, True, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether a background thread computes the assignments of a share group.", internal=True),
    Key("share.auto.offset.reset", STRING, "latest", OffsetReset(), MEDIUM, CLUSTER_WIDE,
        "Where a share group begins in a partition: `earliest`, `latest`, or `by_duration:` and how long ago."),
    Key("share.delivery.count.limit", INT, 5, at_least(2), MEDIUM, CLUSTER_WIDE,
        "How often a record is delivered to a share group before it counts as failed.", effect=CHECKED),
    Key("share.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often the members of a share group send heartbeats.", effect=CHECKED),
    Key("share.isolation.level", STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"), MEDIUM,
        CLUSTER_WIDE, "Whether a share group is given records of transactions that are open or were aborted."),
    Key("share.partition.max.record.locks", INT, 2000, at_least(100), MEDIUM, CLUSTER_WIDE,
        "Records of a partition that may be in delivery to a share group at a time.", effect=CHECKED),
    Key("share.record.lock.duration.ms", INT, 30_000, at_least(1000), MEDIUM, CLUSTER_WIDE,
        "How long a record stays locked for the share group member that received it.", effect=CHECKED),
    Key("share.renew.acknowledge.enable", BOOLEAN, True, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether the members of a share group may renew their lock on a record."),
    Key("share.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A member of a share group that is silent for this long is removed.", effect=CHECKED),
    Key("streams.acceptable.recovery.lag", LONG, 10_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How many offsets a client may be behind and still take over an active task.", internal=True),
    Key("streams.assignment.interval.ms", INT, 1000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a streams group waits between two assignments.", effect=CHECKED),
    Key("streams.assignor.name", STRING, None, ANY, MEDIUM, CLUSTER_WIDE,
        "Task assignor of a streams group; by default the first of group.streams.assignors.", effect=CHECKED),
    Key("streams.assignor.offload.enable", BOOLEAN, True, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether a background thread computes the assignments of a streams group.", internal=True),
    Key("streams.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often the members of a streams group send heartbeats.", effect=CHECKED),
    Key("streams.initial.rebalance.delay.ms", INT, 3000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a new streams group waits for more members before its first rebalance."),
    Key("streams.num.standby.replicas", INT, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Standby replicas of each task of a streams group.", effect=CHECKED),
    Key("streams.num.warmup.replicas", INT, 2, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Warm-up replicas of a streams group.", effect=CHECKED, internal=True),
    Key("streams.rack.aware.assignment.tags", LIST, (), ITEMS, LOW, CLUSTER_WIDE,
        "Client tags over which the standby replicas of a streams group are spread.", effect=CHECKED),
    Key("streams.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A member of a streams group that is silent for this long is removed.", effect=CHECKED),
    Key("streams.task.offset.interval.ms", INT, 60_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often clients report the offsets of warm-up tasks.", effect=CHECKED, internal=True),
)
# fmt: on
