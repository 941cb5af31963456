"""Every topic setting of Kafka 4.1 (``LogConfig``); all of them can change while the topic is in use.

The columns are the fields of ``Key``.
"""

from __future__ import annotations

from tidelog.config.columns import (
    BOOLEAN,
    CLUSTER_WIDE,
    COMPRESSION_TYPES,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    MEDIUM,
    STRING,
)
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, Between, LevelOrDefault, ThrottledReplicas, at_least, one_of

# fmt: off
TOPIC_KEYS = table(
    Key("cleanup.policy", LIST, ("delete",), one_of("compact", "delete"), MEDIUM, CLUSTER_WIDE,
        "What becomes of old records: `delete` drops whole segments by age or size, `compact` keeps the last "
        "record of each key. Both may be set; an empty list keeps everything.", used=True),
    Key("compression.gzip.level", INT, -1, LevelOrDefault(1, 9, -1), MEDIUM, CLUSTER_WIDE,
        "Level for gzip where compression.type asks for it; -1 is the codec's own default."),
    Key("compression.lz4.level", INT, 9, Between(1, 17), MEDIUM, CLUSTER_WIDE,
        "Level for lz4 where compression.type asks for it."),
    Key("compression.type", STRING, "producer", COMPRESSION_TYPES, MEDIUM, CLUSTER_WIDE,
        "Codec of the batches in the log; `producer` keeps what the producer chose, `uncompressed` takes "
        "compression off.", used=True),
    Key("compression.zstd.level", INT, 3, Between(-131_072, 22), MEDIUM, CLUSTER_WIDE,
        "Level for zstd where compression.type asks for it."),
    Key("delete.retention.ms", LONG, 86_400_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long a compacted topic keeps tombstones and transaction markers, counted from when the cleaner first"
        " saw them.", used=True),
    Key("file.delete.delay.ms", LONG, 60_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How long files of a deleted segment stay on the disk under the name `.deleted`.", used=True),
    Key("flush.messages", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Flush the log once this many messages were appended since the last flush.", used=True),
    Key("flush.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Flush the log once this long has passed since the last flush.", used=True),
    Key("follower.replication.throttled.replicas", LIST, (), ThrottledReplicas(), MEDIUM, CLUSTER_WIDE,
        "Replicas whose fetching is throttled: `partition:broker` pairs, or `*` for all."),
    Key("index.interval.bytes", INT, 4096, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How many bytes of batches lie between two entries of the offset index.", used=True),
    Key("internal.segment.bytes", INT, None, ANY, MEDIUM, CLUSTER_WIDE,
        "Segment size below the 1 MiB that segment.bytes allows; goes before it. For tests.", used=True, internal=True),
    Key("leader.replication.throttled.replicas", LIST, (), ThrottledReplicas(), MEDIUM, CLUSTER_WIDE,
        "Replicas whose serving to followers is throttled: `partition:broker` pairs, or `*` for all."),
    Key("local.retention.bytes", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "Bytes a tiered partition keeps on its own disk; -2 means as retention.bytes."),
    Key("local.retention.ms", LONG, -2, at_least(-2), MEDIUM, CLUSTER_WIDE,
        "How long a tiered partition keeps segments on its own disk; -2 means as retention.ms."),
    Key("max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A record becomes due for compaction at the latest after this long.", used=True),
    Key("max.message.bytes", INT, 1_048_588, at_least(0), MEDIUM, CLUSTER_WIDE,
        "The largest batch the log takes, as it is after compression.", used=True),
    Key("message.timestamp.after.max.ms", LONG, 3_600_000, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may lie ahead of the broker's clock (CreateTime only).", used=True),
    Key("message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), MEDIUM, CLUSTER_WIDE,
        "How far a record's timestamp may lie behind the broker's clock (CreateTime only).", used=True),
    Key("message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"), MEDIUM, CLUSTER_WIDE,
        "Whose clock a record's timestamp is: the producer's (`CreateTime`) or the broker's at the append "
        "(`LogAppendTime`).", used=True),
    Key("min.cleanable.dirty.ratio", DOUBLE, 0.5, Between(0, 1), MEDIUM, CLUSTER_WIDE,
        "The share of a compacted log that must be uncleaned before the cleaner takes it.", used=True),
    Key("min.compaction.lag.ms", LONG, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "A record stays out of compaction for at least this long.", used=True),
    Key("min.insync.replicas", INT, 1, at_least(1), MEDIUM, CLUSTER_WIDE,
        "Replicas that must have a batch before acks=all is answered; with fewer in sync it is refused.", used=True),
    Key("preallocate", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Reserve a new segment's whole size on the disk when it is made.", used=True),
    Key("remote.log.copy.disable", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Copy nothing more to remote storage; what is there can still be read."),
    Key("remote.log.delete.on.disable", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Delete what is in remote storage when remote.storage.enable is turned off."),
    Key("remote.storage.enable", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Keep old segments of this topic in remote storage (tiered storage)."),
    Key("retention.bytes", LONG, -1, ANY, MEDIUM, CLUSTER_WIDE,
        "Delete the oldest segments of a partition while it is larger than this; -1 sets no limit.", used=True),
    Key("retention.ms", LONG, 604_800_000, at_least(-1), MEDIUM, CLUSTER_WIDE,
        "Delete segments whose newest record is older than this; -1 sets no limit.", used=True),
    Key("segment.bytes", INT, 1_073_741_824, at_least(1_048_576), MEDIUM, CLUSTER_WIDE,
        "A segment is closed and a new one begun before it grows over this size.", used=True),
    Key("segment.index.bytes", INT, 10_485_760, at_least(4), MEDIUM, CLUSTER_WIDE,
        "The largest an index file gets; a full index closes its segment.", used=True),
    Key("segment.jitter.ms", LONG, 0, at_least(0), MEDIUM, CLUSTER_WIDE,
        "Up to this much, drawn at random, is taken off segment.ms, so that not all roll at once.", used=True),
    Key("segment.ms", LONG, 604_800_000, at_least(1), MEDIUM, CLUSTER_WIDE,
        "A segment is closed and a new one begun when its first record is this old.", used=True),
    Key("unclean.leader.election.enable", BOOLEAN, False, ANY, MEDIUM, CLUSTER_WIDE,
        "Whether a replica that is not in sync may become leader, at the price of lost records."),
)
# fmt: on
