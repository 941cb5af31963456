"""The options of ``format("tidelog")``, parsed from text to one frozen ``ReadOptions``.

Every error in the options is raised here. Names, defaults and precedence follow Spark's Kafka source
(``KafkaSourceProvider``), so that a job moves by changing the format and giving ``logDirs``. The functions are pure:
they touch no file and import no Spark class.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.read.java_pattern import compile_java_pattern
from tidelog.spark.read.option_text import (
    Given,
    parse_assignment,
    parse_boolean,
    parse_choice,
    parse_enum,
    parse_log_dirs,
    parse_partition_map,
    parse_positive,
    parse_whole,
    refuse_misspelt,
    unknown_options,
)
from tidelog.spark.read.table_columns import Columns, Mode, columns_of, wanted_columns

if TYPE_CHECKING:
    import pyarrow as pa

EARLIEST = -2
LATEST = -1

EFFECTIVE = (
    "logDirs",
    "path",
    "assign",
    "subscribe",
    "subscribePattern",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "splitBytes",
    "includeHeaders",
    "kafka.isolation.level",
    "columns",
    "includeControlRecords",
    "includeBatchMetadata",
    "verifyChecksums",
    "onCorrupt",
    "mode",
    "until",
    "replica",
    "reader",
)
IGNORED = (
    "groupIdPrefix",
    "kafka.group.id",
    "kafka.bootstrap.servers",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
"""Options of Spark's Kafka source without effect here: they steer a consumer, and files have none."""
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""Options without effect in a batch read. As in Spark's Kafka source, they give a warning."""
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
"""Options that are an error in a stream, as in Spark's Kafka source."""
KNOWN = (*EFFECTIVE, *IGNORED, *STREAM_ONLY)


class SubscriptionKind(enum.StrEnum):
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    PATTERN = "subscribePattern"


@dataclass(frozen=True, slots=True)
class Subscription:
    """The partitions that a read covers. The pattern is Java's, and matches anywhere in a topic's name."""

    kind: SubscriptionKind
    partitions: frozenset[TopicPartition] = frozenset()
    topics: frozenset[str] = frozenset()
    pattern: str = ""

    def covers(self, partition: TopicPartition) -> bool:
        match self.kind:
            case SubscriptionKind.ASSIGN:
                return partition in self.partitions
            case SubscriptionKind.SUBSCRIBE:
                return partition.topic in self.topics
            case SubscriptionKind.PATTERN:
                return compile_java_pattern(self.pattern).search(partition.topic) is not None


@dataclass(frozen=True, slots=True)
class Bound:
    """The start or the end of a read. Exactly one field is set. Offsets may be EARLIEST or LATEST, and timestamps are
    in ms."""

    everywhere: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None

    def named_partitions(self) -> frozenset[TopicPartition] | None:
        named = self.offsets if self.offsets is not None else self.timestamps_ms
        return None if named is None else frozenset(named)


class Use(enum.Enum):
    """The use of the options. A stream begins at the latest offsets by default, and has no end."""

    BATCH = enum.auto()
    STREAM = enum.auto()
    TABLE = enum.auto()
    """Only the schema: Spark asks for it before it says whether it reads a batch or a stream."""


class OnCorrupt(enum.StrEnum):
    """The action of a read at a batch that contradicts itself."""

    FAIL = "fail"
    SKIP = "skip"
    REPORT = "report"


class Until(enum.StrEnum):
    """The end of a read without a given end. AUTO is the high watermark under a live broker, else the log end."""

    AUTO = "auto"
    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    CHECKPOINT = "checkpoint"


class ReplicaChoice(enum.StrEnum):
    """The replica that a read of records takes if ``logDirs`` has several brokers' replicas of a partition."""

    LEADER = "leader"
    """The leader's by the newest cluster metadata, else as LONGEST."""
    LONGEST = "longest"
    """The one with the newest leader epoch, and then the highest log end."""
    FAIL = "fail"


class Reader(enum.StrEnum):
    """The reader of records: the JVM's if the session has its jar, or Python's."""

    AUTO = "auto"
    JVM = "jvm"
    PYTHON = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    log_dirs: tuple[str, ...]
    subscription: Subscription
    starting: Bound = Bound(everywhere=EARLIEST)
    ending: Bound = Bound(everywhere=LATEST)
    starting_timestamp_falls_back_to_latest: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    split_bytes: int | None = None
    """None lets the planner choose."""
    include_headers: bool = False
    read_committed: bool = False
    columns: tuple[str, ...] | None = None
    include_control_records: bool = False
    include_batch_metadata: bool = False
    verify_checksums: bool = True
    asks_for_checksums: bool = False
    """True if the option is given, and not the default."""
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    mode: Mode = Mode.RECORDS
    until: Until = Until.AUTO
    replica: ReplicaChoice | int = ReplicaChoice.LEADER
    """A number is the id of the node whose replica is read."""
    reader: Reader = Reader.AUTO

    @classmethod
    def parse(cls, options: Mapping[str, str], use: Use = Use.BATCH) -> ReadOptions:
        """Parse options, with names in any case. ConfigError names the option, the value and the expected form."""
        given = {name.lower(): value for name, value in options.items()}
        refuse_misspelt(given, KNOWN)
        mode = parse_enum(given, "mode", Mode, Mode.RECORDS)
        isolation = parse_choice(
            given, "kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted"
        )
        strategy = parse_choice(given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        return cls(
            log_dirs=parse_log_dirs(given),
            subscription=_subscription(given),
            starting=_starting(given, use),
            ending=_ending(given, use),
            starting_timestamp_falls_back_to_latest=strategy == "latest",
            fail_on_data_loss=parse_boolean(given, "failOnDataLoss", default=True),
            min_partitions=parse_positive(given, "minPartitions"),
            max_records_per_partition=parse_positive(given, "maxRecordsPerPartition"),
            split_bytes=parse_positive(given, "splitBytes"),
            include_headers=parse_boolean(given, "includeHeaders", default=False),
            read_committed=isolation == "read_committed",
            columns=_columns(given, mode),
            include_control_records=parse_boolean(given, "includeControlRecords", default=False),
            include_batch_metadata=parse_boolean(given, "includeBatchMetadata", default=False),
            verify_checksums=parse_boolean(given, "verifyChecksums", default=True),
            asks_for_checksums=parse_boolean(given, "verifyChecksums", default=False),
            on_corrupt=parse_enum(given, "onCorrupt", OnCorrupt, OnCorrupt.FAIL),
            mode=mode,
            until=parse_enum(given, "until", Until, Until.AUTO),
            replica=_replica(given, use),
            reader=parse_enum(given, "reader", Reader, Reader.AUTO),
        )

    @property
    def trusts_headers(self) -> bool:
        """True if batch headers may give an aggregate, so that no CRC is checked. A read that asks for checks, or
        that skips or reports damage, reads every record."""
        return self.on_corrupt is OnCorrupt.FAIL and not self.asks_for_checksums

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the batches that a read with these options returns."""
        from tidelog.spark.read.schema import arrow_schema  # pyarrow is large, and the planner's process needs none

        return arrow_schema(self.wanted_columns)

    @property
    def wanted_columns(self) -> Columns:
        """The columns of the batches that a read with these options returns."""
        return wanted_columns(
            self.mode,
            columns=self.columns,
            headers=self.include_headers,
            batch_metadata=self.include_batch_metadata,
            reports_damage=self.on_corrupt is OnCorrupt.REPORT,
        )


def option_warnings(options: Mapping[str, str], use: Use = Use.BATCH) -> list[str]:
    """Return a sentence for every given option that has no effect but may have been meant to have one."""
    given = {name.lower(): name for name in options}
    stream_only = [name for name in STREAM_ONLY if name.lower() in given and use is Use.BATCH]
    sentences = [f"Option '{name}' has no effect in a batch read" for name in stream_only]
    return sentences + [
        f"Option '{name}' is not one of format tidelog and has no effect" for name in unknown_options(options, KNOWN)
    ]


def _subscription(given: Given) -> Subscription:
    chosen = [kind for kind in SubscriptionKind if kind.lower() in given]
    if len(chosen) != 1:
        found = ", ".join(chosen) if chosen else "none"
        raise ConfigError(f"Give exactly one of the options assign, subscribe and subscribePattern (found: {found})")
    kind = chosen[0]
    text = given[kind.lower()].strip()
    match kind:
        case SubscriptionKind.ASSIGN:
            partitions = frozenset(parse_assignment(text))
            if not partitions:
                raise ConfigError(f"Option 'assign' names no partition: {text!r}")
            return Subscription(kind, partitions=partitions)
        case SubscriptionKind.SUBSCRIBE:
            topics = frozenset(part.strip() for part in text.split(",") if part.strip())
            if not topics:
                raise ConfigError(f"Option 'subscribe' names no topic: {text!r}")
            return Subscription(kind, topics=topics)
        case SubscriptionKind.PATTERN:
            if not text:
                raise ConfigError("Option 'subscribePattern' is empty")
            compile_java_pattern(text)
            return Subscription(kind, pattern=text)


def _starting(given: Given, use: Use) -> Bound:
    bound = _bound(given, "starting", default=LATEST if use is Use.STREAM else EARLIEST)
    if use is not Use.BATCH:
        return bound
    if bound.everywhere == LATEST:
        raise ConfigError("Option 'startingOffsets' can't be latest in a batch read: nothing would be read")
    for partition, offset in (bound.offsets or {}).items():
        if offset == LATEST:
            raise ConfigError(f"Option 'startingOffsets' for {partition} can't be -1 (latest) in a batch read")
    return bound


def _ending(given: Given, use: Use) -> Bound:
    if use is Use.STREAM:
        for name in ENDING:
            if name.lower() in given:
                raise ConfigError(f"Option '{name}' is not allowed in a stream, which has no end")
        return Bound(everywhere=LATEST)
    bound = _bound(given, "ending", default=LATEST)
    if use is Use.TABLE:
        return bound
    if bound.everywhere == EARLIEST:
        raise ConfigError("Option 'endingOffsets' can't be earliest in a batch read: nothing would be read")
    for partition, offset in (bound.offsets or {}).items():
        if offset == EARLIEST:
            raise ConfigError(f"Option 'endingOffsets' for {partition} can't be -2 (earliest) in a batch read")
    return bound


def _bound(given: Given, end: str, *, default: int) -> Bound:
    """Parse a bound. The first given of three options decides: timestamp, offsets by timestamp, offsets."""
    if (text := given.get(f"{end}timestamp")) is not None:
        return Bound(timestamp_ms=parse_whole(text, f"{end}Timestamp", least=0))
    if (text := given.get(f"{end}offsetsbytimestamp")) is not None:
        return Bound(timestamps_ms=parse_partition_map(text, f"{end}OffsetsByTimestamp", least=0))
    text = given.get(f"{end}offsets")
    if text is None:
        return Bound(everywhere=default)
    match text.strip().lower():
        case "earliest":
            return Bound(everywhere=EARLIEST)
        case "latest":
            return Bound(everywhere=LATEST)
    return Bound(offsets=parse_partition_map(text, f"{end}Offsets", least=EARLIEST))


def _replica(given: Given, use: Use) -> ReplicaChoice | int:
    """Parse the choice. A stream keeps its replica, so there it can only be named by a node's id."""
    text = given.get("replica", "").strip()
    if text.isascii() and text.isdecimal():
        return parse_whole(text, "replica", least=0)
    usual = ReplicaChoice.FAIL if use is Use.STREAM else ReplicaChoice.LEADER
    choice = parse_enum(given, "replica", ReplicaChoice, usual)
    if use is Use.STREAM and choice is not ReplicaChoice.FAIL:
        raise ConfigError(
            f"Option 'replica' can't be {choice} in a stream, because the choice would change while it runs: give the"
            " id of a node"
        )
    return choice


def _columns(given: Given, mode: Mode) -> tuple[str, ...] | None:
    text = given.get("columns")
    if text is None:
        return None
    known = {name.lower(): name for name in columns_of(mode)}
    asked = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not asked or len(set(asked)) != len(asked) or not known.keys() >= set(asked):
        raise ConfigError(
            f"Option 'columns' takes distinct names out of {', '.join(known.values())} in mode {mode}; got {text!r}"
        )
    return tuple(known[name] for name in asked)
