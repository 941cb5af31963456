"""The options of the sinks, parsed from text to one frozen ``WriteOptions``.

Every error in the options is raised here. ``topic`` is an option of Spark's Kafka sink, and options with the prefix
``kafka.`` are its producer's. The others are tidelog's. The functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import ConfigError
from tidelog.model.topic_partition import is_legal_topic
from tidelog.record.attributes import CODECS, codec_number
from tidelog.record.build import DEFAULT_MAX_BATCH_BYTES
from tidelog.record.compression import compress
from tidelog.spark.read.option_text import (
    Given,
    parse_choice,
    parse_log_dirs,
    parse_positive,
    parse_time_ms,
    parse_whole,
    refuse_misspelt,
    shown,
    unknown_options,
)
from tidelog.storage.fs import is_url

_CODEC = "kafka.compression.type"
_BATCH_SIZE = "kafka.batch.size"
_LOCK_TIMEOUT = "10s"

_LEVEL = "kafka.compression.{codec}.level"
_LEVELS = tuple(_LEVEL.format(codec=codec) for codec in ("gzip", "lz4", "zstd"))

EFFECTIVE = ("logDirs", "path", "topic", "numPartitions", "lockTimeout", _CODEC, *_LEVELS, _BATCH_SIZE)
OF_SPARK = ("checkpointLocation", "queryName", "includeHeaders")
"""Spark's own options of a stream, which reach the sink too, and an option that users of its Kafka sink give."""
KNOWN = (*EFFECTIVE, *OF_SPARK)
_PARTITIONER = "kafka.partitioner."


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    log_dir: Path
    topic: str | None = None
    """The topic of all rows. None means that each row names its own."""
    num_partitions: int = 1
    """The minimum number of partitions of a topic that the cluster metadata does not know."""
    codec: str = "none"
    level: int | None = None
    batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    lock_timeout_ms: int = parse_time_ms(_LOCK_TIMEOUT, "lockTimeout")
    """The maximum wait in ms for a directory that another process holds."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse options, with names in any case. ConfigError names the option, the value and the expected form."""
        given = {name.lower(): value for name, value in options.items()}
        refuse_misspelt(given, KNOWN)
        log_dirs = parse_log_dirs(given)
        if len(log_dirs) > 1 or is_url(log_dirs[0]):
            raise ConfigError(f"Option 'logDirs' must name one directory on a disk for a write: {shown(log_dirs)}")
        topic = given.get("topic")
        if topic is not None and not is_legal_topic(topic):
            raise ConfigError(f"Option 'topic' is not a legal name for a topic: {shown(topic)}")
        codec = parse_choice(given, _CODEC, tuple(CODECS.values()), "none")
        return cls(
            log_dir=Path(log_dirs[0]),
            topic=topic,
            num_partitions=parse_positive(given, "numPartitions") or 1,
            codec=codec,
            level=_level(given, codec),
            batch_bytes=parse_positive(given, _BATCH_SIZE) or DEFAULT_MAX_BATCH_BYTES,
            lock_timeout_ms=parse_time_ms(given.get("locktimeout", _LOCK_TIMEOUT), "lockTimeout"),
        )


def option_warnings(options: Mapping[str, str]) -> list[str]:
    """Return a sentence for every given option that has no effect but may have been meant to have one."""
    unknown = [
        f"Option '{name}' is not one of format tidelog's sink and has no effect"
        for name in unknown_options(options, KNOWN)
    ]
    partitioners = sorted(name for name in options if name.lower().startswith(_PARTITIONER))
    return unknown + [
        f"Option '{name}' has no effect: keys go where the Java client's default partitioner sends them"
        for name in partitioners
    ]


def _level(given: Given, codec: str) -> int | None:
    """Return the producer's compression level for the codec. The codec itself rejects an invalid level."""
    name = _LEVEL.format(codec=codec)
    text = given.get(name) if name in _LEVELS else None
    if text is None:
        return None
    level = parse_whole(text, name, least=-(2**31))
    compress(codec_number(codec), b"", level)
    return level
