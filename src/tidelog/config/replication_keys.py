"""Broker keys of replication: fetchers, in-sync replicas, elections.

The columns are the fields of ``Key``.
"""

from __future__ import annotations

from tidelog.config.columns import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LONG, LOW, MEDIUM, READ_ONLY, STRING, USED
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, at_least

# fmt: off
REPLICATION_KEYS = table(
    Key("auto.leader.rebalance.enable", BOOLEAN, True, ANY, HIGH, READ_ONLY,
        "Give leaderships back to preferred replicas in the background.", effect=USED),
    Key("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether an empty follower skips the records in remote storage."),
    Key("inter.broker.listener.name", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Listener that brokers use among each other.", effect=USED),
    Key("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), HIGH, READ_ONLY,
        "How often the controller looks for leaders that are not the preferred replicas.", effect=USED),
    Key("num.replica.fetchers", INT, 1, at_least(1), HIGH, CLUSTER_WIDE,
        "Threads that fetch from each leader.", effect=USED),
    Key("replica.fetch.backoff.ms", INT, 1000, at_least(0), MEDIUM, READ_ONLY,
        "The longest wait of a fetcher after an error.", effect=USED),
    Key("replica.fetch.max.bytes", INT, 1_048_576, at_least(0), MEDIUM, READ_ONLY,
        "Bytes a follower requests for a partition; a larger first batch is still returned.", effect=USED),
    Key("replica.fetch.min.bytes", INT, 1, ANY, HIGH, READ_ONLY,
        "Bytes a follower's fetch waits for, up to replica.fetch.wait.max.ms.", effect=USED),
    Key("replica.fetch.response.max.bytes", INT, 10_485_760, at_least(0), MEDIUM, READ_ONLY,
        "Bytes a follower asks for in one fetch, over all partitions.", effect=USED),
    Key("replica.fetch.wait.max.ms", INT, 500, ANY, HIGH, READ_ONLY,
        "How long a follower's fetch may wait for new records.", effect=USED),
    Key("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, ANY, HIGH, READ_ONLY,
        "How often high watermarks are checkpointed.", effect=USED),
    Key("replica.lag.time.max.ms", LONG, 30_000, ANY, HIGH, READ_ONLY,
        "A follower that has not caught up for this long is no longer in sync.", effect=USED),
    Key("replica.selector.class", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Class that picks the replica a consumer reads from.", effect=USED),
    Key("replica.socket.receive.buffer.bytes", INT, 65_536, ANY, HIGH, READ_ONLY,
        "SO_RCVBUF of the sockets replicas fetch with.", effect=USED),
    Key("replica.socket.timeout.ms", INT, 30_000, ANY, HIGH, READ_ONLY,
        "How long a fetch of a replica may take; at least replica.fetch.wait.max.ms.", effect=USED),
    Key("replication.quota.window.num", INT, 11, at_least(1), LOW, READ_ONLY,
        "Samples kept for replication quotas.", effect=USED),
    Key("replication.quota.window.size.seconds", INT, 1, at_least(1), LOW, READ_ONLY,
        "Length of one sample for replication quotas.", effect=USED),
    Key("unclean.leader.election.interval.ms", LONG, 300_000, at_least(1), MEDIUM, READ_ONLY,
        "How often the controller looks for leaders it may elect uncleanly.", effect=USED, internal=True),
)
# fmt: on
