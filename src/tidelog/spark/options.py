"""Options of ``format("tidelog")``: text in, one frozen ``ReadOptions`` out; every mistake is named here.

Names, defaults and precedence follow Spark's own Kafka source (its class ``KafkaSourceProvider``), so that a job
moves by changing the format and giving ``logDirs``. Pure: no file is touched and no Spark class is imported.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidelog.model import ConfigError, TopicPartition
from tidelog.spark.schema import RECORD_COLUMNS, Mode

T = TypeVar("T", bound=enum.Enum)

EARLIEST = -2
LATEST = -1
DEFAULT_SPLIT_BYTES = 64 * 1024 * 1024

IGNORED = frozenset(
    {
        "groupidprefix",
        "kafka.group.id",
        "kafka.bootstrap.servers",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "maxoffsetspertrigger",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "path",
    }
)
"""Accepted without effect: they steer a consumer or a trigger, and a batch read of files has neither."""

KNOWN = (
    frozenset(
        name.lower()
        for name in (
            "logDirs assign subscribe subscribePattern startingTimestamp startingOffsetsByTimestamp startingOffsets "
            "endingTimestamp endingOffsetsByTimestamp endingOffsets startingOffsetsByTimestampStrategy failOnDataLoss "
            "minPartitions maxRecordsPerPartition includeHeaders kafka.isolation.level columns includeControlRecords "
            "includeBatchMetadata verifyChecksums onCorrupt mode until splitBytes"
        ).split()
    )
    | IGNORED
)


class SubscriptionKind(enum.StrEnum):
    ASSIGN = "assign"
    SUBSCRIBE = "subscribe"
    PATTERN = "subscribePattern"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions a read covers; a pattern is a Python regular expression that must match the whole topic."""

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
                return re.fullmatch(self.pattern, partition.topic) is not None


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a read: exactly one field is set. Offsets may be EARLIEST or LATEST; timestamps are in ms."""

    everywhere: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None

    def named_partitions(self) -> frozenset[TopicPartition] | None:
        named = self.offsets if self.offsets is not None else self.timestamps_ms
        return None if named is None else frozenset(named)


class OnCorrupt(enum.StrEnum):
    """What a read does at a batch that contradicts itself."""

    FAIL = "fail"
    SKIP = "skip"
    REPORT = "report"


class Until(enum.StrEnum):
    """Where a read that names no end stops; AUTO: the log end, or the high watermark where a live broker holds the directory."""

    AUTO = "auto"
    LOG_END = "log_end"
    HIGH_WATERMARK = "high_watermark"
    CHECKPOINT = "checkpoint"


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
    split_bytes: int = DEFAULT_SPLIT_BYTES
    include_headers: bool = False
    read_committed: bool = False
    columns: tuple[str, ...] | None = None
    include_control_records: bool = False
    include_batch_metadata: bool = False
    verify_checksums: bool = True
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    mode: Mode = Mode.RECORDS
    until: Until = Until.AUTO

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse a batch read's options (keys in any case); ConfigError names the option, the value and what is wanted."""
        given = {name.lower(): value for name, value in options.items()}
        _refuse_unknown(given)
        mode = _enum(given, "mode", Mode, Mode.RECORDS)
        on_corrupt = _enum(given, "onCorrupt", OnCorrupt, OnCorrupt.FAIL)
        return cls(
            log_dirs=_log_dirs(given),
            subscription=_subscription(given),
            starting=_starting(given),
            ending=_ending(given),
            starting_timestamp_falls_back_to_latest=_choice(
                given, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
            )
            == "latest",
            fail_on_data_loss=_boolean(given, "failOnDataLoss", default=True),
            min_partitions=_positive(given, "minPartitions"),
            max_records_per_partition=_positive(given, "maxRecordsPerPartition"),
            split_bytes=_positive(given, "splitBytes") or DEFAULT_SPLIT_BYTES,
            include_headers=_boolean(given, "includeHeaders", default=False),
            read_committed=_choice(
                given, "kafka.isolation.level", ("read_uncommitted", "read_committed"), "read_uncommitted"
            )
            == "read_committed",
            columns=_columns(given),
            include_control_records=_boolean(given, "includeControlRecords", default=False),
            include_batch_metadata=_boolean(given, "includeBatchMetadata", default=False),
            verify_checksums=_boolean(given, "verifyChecksums", default=True),
            on_corrupt=on_corrupt,
            mode=mode,
            until=_enum(given, "until", Until, Until.AUTO),
        )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    unknown = sorted(name for name in given if name not in KNOWN and not name.startswith("kafka."))
    if unknown:
        raise ConfigError(f"Unknown option {', '.join(repr(name) for name in unknown)} for format tidelog")


def _log_dirs(given: Mapping[str, str]) -> tuple[str, ...]:
    dirs = tuple(part.strip() for part in given.get("logdirs", "").split(",") if part.strip())
    if not dirs:
        raise ConfigError("Option 'logDirs' is required: a comma-separated list of Kafka data directories")
    return dirs


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [kind for kind in SubscriptionKind if kind.lower() in given]
    if len(chosen) != 1:
        found = ", ".join(chosen) if chosen else "none"
        raise ConfigError(f"Give exactly one of the options assign, subscribe and subscribePattern (found: {found})")
    kind = chosen[0]
    text = given[kind.lower()].strip()
    match kind:
        case SubscriptionKind.ASSIGN:
            return Subscription(kind, partitions=frozenset(_parse_assignment(text)))
        case SubscriptionKind.SUBSCRIBE:
            topics = frozenset(part.strip() for part in text.split(",") if part.strip())
            if not topics:
                raise ConfigError(f"Option 'subscribe' names no topic: {text!r}")
            return Subscription(kind, topics=topics)
        case SubscriptionKind.PATTERN:
            if not text:
                raise ConfigError("Option 'subscribePattern' is empty")
            return Subscription(kind, pattern=_compile_java_pattern(text))


def _compile_java_pattern(text: str) -> str:
    # Possessive quantifiers, atomic groups and named groups agree from Python 3.11 on but for Java's (?<name>…).
    pattern = re.sub(r"\(\?<(?![=!])", "(?P<", text)
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"Option 'subscribePattern' is not a regular expression: {text!r}: {error}") from error
    return pattern


def _starting(given: Mapping[str, str]) -> Bound:
    bound = _bound(given, "starting", default=EARLIEST)
    if bound.everywhere == LATEST:
        raise ConfigError("Option 'startingOffsets' can't be latest in a batch read: nothing would be read")
    for partition, offset in (bound.offsets or {}).items():
        if offset == LATEST:
            raise ConfigError(f"Option 'startingOffsets' for {partition} can't be -1 (latest) in a batch read")
    return bound


def _ending(given: Mapping[str, str]) -> Bound:
    bound = _bound(given, "ending", default=LATEST)
    if bound.everywhere == EARLIEST:
        raise ConfigError("Option 'endingOffsets' can't be earliest in a batch read: nothing would be read")
    for partition, offset in (bound.offsets or {}).items():
        if offset == EARLIEST:
            raise ConfigError(f"Option 'endingOffsets' for {partition} can't be -2 (earliest) in a batch read")
    return bound


def _bound(given: Mapping[str, str], end: str, *, default: int) -> Bound:
    """The first given of three options decides: timestamp, offsets by timestamp, offsets."""
    if (text := given.get(f"{end}timestamp")) is not None:
        return Bound(timestamp_ms=_whole_number(text, f"{end}Timestamp", least=0))
    if (text := given.get(f"{end}offsetsbytimestamp")) is not None:
        return Bound(timestamps_ms=_parse_partition_map(text, f"{end}OffsetsByTimestamp", least=0))
    text = given.get(f"{end}offsets")
    if text is None:
        return Bound(everywhere=default)
    match text.strip().lower():
        case "earliest":
            return Bound(everywhere=EARLIEST)
        case "latest":
            return Bound(everywhere=LATEST)
    return Bound(offsets=_parse_partition_map(text, f"{end}Offsets", least=EARLIEST))


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    text = given.get("columns")
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [name for name in names if name not in RECORD_COLUMNS]
    if unknown or not names or len(set(names)) != len(names):
        raise ConfigError(f"Option 'columns' takes distinct names out of {', '.join(RECORD_COLUMNS)}; got {text!r}")
    return names


def _parse_assignment(text: str) -> Iterable[TopicPartition]:
    example = '{"topicA":[0,1],"topicB":[0,1]}'
    parsed = _json_object(text, "assign", example)
    for topic, partitions in parsed.items():
        if not isinstance(partitions, list) or not all(_is_partition(number) for number in partitions):
            raise ConfigError(f"Option 'assign' wants JSON like {example}; got {text!r}")
        yield from (TopicPartition(topic, number) for number in partitions)


def _parse_partition_map(text: str, option: str, *, least: int) -> dict[TopicPartition, int]:
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    result: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(text, option, example).items():
        if not isinstance(numbers, dict):
            raise ConfigError(f"Option '{option}' wants JSON like {example}; got {text!r}")
        for partition, number in numbers.items():
            if not partition.isdecimal() or isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise ConfigError(
                    f"Option '{option}' has a bad entry for {topic}-{partition}: {number!r} (whole numbers from {least})"
                )
            result[TopicPartition(topic, int(partition))] = number
    return result


def _json_object(text: str, option: str, example: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"Option '{option}' wants JSON like {example}; got {text!r}: {error}") from error
    if not isinstance(parsed, dict):
        raise ConfigError(f"Option '{option}' wants JSON like {example}; got {text!r}")
    return parsed


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _enum(given: Mapping[str, str], option: str, kind: Callable[[str], T], default: T) -> T:
    text = given.get(option.lower())
    if text is None:
        return default
    try:
        return kind(text.strip().lower())
    except ValueError as error:
        allowed = ", ".join(member.value for member in type(default))
        raise ConfigError(f"Option '{option}' takes one of {allowed}; got {text!r}") from error


def _choice(given: Mapping[str, str], option: str, allowed: tuple[str, ...], default: str) -> str:
    text = given.get(option.lower(), default).strip().lower()
    if text not in allowed:
        raise ConfigError(f"Option '{option}' takes one of {', '.join(allowed)}; got {text!r}")
    return text


def _boolean(given: Mapping[str, str], option: str, *, default: bool) -> bool:
    return _choice(given, option, ("true", "false"), "true" if default else "false") == "true"


def _positive(given: Mapping[str, str], option: str) -> int | None:
    text = given.get(option.lower())
    return None if text is None else _whole_number(text, option, least=1)


def _whole_number(text: str, option: str, *, least: int) -> int:
    try:
        number = int(text.strip())
    except ValueError:
        number = least - 1
    if number < least:
        raise ConfigError(f"Option '{option}' takes a whole number from {least}; got {text!r}")
    return number
