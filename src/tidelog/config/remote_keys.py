"""Broker keys of tiered storage (KIP-405).

The columns are the fields of ``Key``.
"""

from __future__ import annotations

from tidelog.config.columns import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
)
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, Between, NotEmpty, at_least

# fmt: off
REMOTE_KEYS = table(
    Key("remote.fetch.max.wait.ms", INT, 500, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How long a fetch may wait for remote storage."),
    Key("remote.list.offsets.request.timeout.ms", LONG, 30_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "How long a look-up of offsets may wait for remote storage."),
    Key("remote.log.index.file.cache.total.size.bytes", LONG, 1_073_741_824, at_least(1), LOW, CLUSTER_WIDE,
        "Disk space for indexes fetched from remote storage."),
    Key("remote.log.manager.copier.thread.pool.size", INT, 10, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Threads that copy segments to remote storage."),
    Key("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Throttle of the copying to remote storage."),
    Key("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1), MEDIUM, READ_ONLY,
        "Samples kept for the quota of copying."),
    Key("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1), MEDIUM, READ_ONLY,
        "Length of one sample for the quota of copying."),
    Key("remote.log.manager.expiration.thread.pool.size", INT, 10, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Threads that delete expired segments from remote storage."),
    Key("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Throttle of the reading from remote storage."),
    Key("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1), MEDIUM, READ_ONLY,
        "Samples kept for the quota of reading."),
    Key("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1), MEDIUM, READ_ONLY,
        "Length of one sample for the quota of reading."),
    Key("remote.log.manager.task.interval.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "How often the tasks that copy and delete remote segments run."),
    Key("remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, at_least(1), LOW, READ_ONLY,
        "The longest wait before a failed remote task is tried again.", internal=True),
    Key("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), LOW, READ_ONLY,
        "The first wait before a failed remote task is tried again.", internal=True),
    Key("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, Between(0, 0.5), LOW, READ_ONLY,
        "Share of the wait that is drawn at random.", internal=True),
    Key("remote.log.manager.thread.pool.size", INT, 2, at_least(1), MEDIUM, READ_ONLY,
        "Threads for the remaining remote work, leadership changes among it."),
    Key("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0), LOW, READ_ONLY,
        "The largest metadata of its own a storage plug-in may keep for a segment."),
    Key("remote.log.metadata.manager.class.name", STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", NotEmpty(),
        MEDIUM, READ_ONLY,
        "Class that keeps track of remote segments."),
    Key("remote.log.metadata.manager.class.path", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Where that class and its libraries are."),
    Key("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", NotEmpty(), MEDIUM, READ_ONLY,
        "Prefix of the settings handed to that class."),
    Key("remote.log.metadata.manager.listener.name", STRING, None, NotEmpty(), MEDIUM, READ_ONLY,
        "Listener that class reaches the broker by."),
    Key("remote.log.reader.max.pending.tasks", INT, 100, at_least(1), MEDIUM, READ_ONLY,
        "Remote reads that may wait; more are refused."),
    Key("remote.log.reader.threads", INT, 10, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Threads that read from remote storage."),
    Key("remote.log.storage.manager.class.name", STRING, None, NotEmpty(), MEDIUM, READ_ONLY,
        "Class that stores segments remotely."),
    Key("remote.log.storage.manager.class.path", STRING, None, ANY, MEDIUM, READ_ONLY,
        "Where that class and its libraries are."),
    Key("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", NotEmpty(), MEDIUM, READ_ONLY,
        "Prefix of the settings handed to that class."),
    Key("remote.log.storage.system.enable", BOOLEAN, False, ANY, MEDIUM, READ_ONLY,
        "Whether tiered storage is offered at all; topics turn it on with remote.storage.enable."),
)
# fmt: on
