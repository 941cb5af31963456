"""Every setting of a group in Kafka 4.1 (``GroupConfig``); all of them can change while the group is in use.

The columns are the fields of ``Key``. The broker has a key for the default of most, and bounds for what a group may
choose: ``group.`` before the name, and ``min`` or ``max`` in it.
"""

from __future__ import annotations

from tidelog.config.columns import CLUSTER_WIDE, INT, MEDIUM, STRING
from tidelog.config.key import Key, table
from tidelog.config.resources.offset_reset import OffsetReset
from tidelog.config.valid import at_least, one_of

# fmt: off
GROUP_KEYS = table(
    Key("consumer.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often the members of a consumer group send heartbeats.", used=True),
    Key("consumer.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A member of a consumer group that is silent for this long is removed.", used=True),
    Key("share.auto.offset.reset", STRING, "latest", OffsetReset(), MEDIUM, CLUSTER_WIDE,
        "Where a share group begins in a partition: `earliest`, `latest`, or `by_duration:` and how long ago."),
    Key("share.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often the members of a share group send heartbeats."),
    Key("share.isolation.level", STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted"), MEDIUM,
        CLUSTER_WIDE, "Whether a share group is given records of transactions that are open or were aborted."),
    Key("share.record.lock.duration.ms", INT, 30_000, at_least(1000), MEDIUM, CLUSTER_WIDE,
        "For how long a member of a share group has the records it was given to itself."),
    Key("share.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A member of a share group that is silent for this long is removed."),
    Key("streams.heartbeat.interval.ms", INT, 5000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How often the members of a streams group send heartbeats."),
    Key("streams.num.standby.replicas", INT, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Standby replicas of each task of a streams group."),
    Key("streams.session.timeout.ms", INT, 45_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A member of a streams group that is silent for this long is removed."),
)
# fmt: on
