"""A log's settings: Kafka's names, defaults and ranges."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.storage.log.state.log_config import LogConfig, property_name

KAFKA_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.decompressed.message.bytes": "2147483639",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
}


def test_defaults_are_kafkas() -> None:
    assert LogConfig.from_properties(KAFKA_DEFAULTS) == LogConfig()
    named = {property_name(field.name) for field in fields(LogConfig)}
    assert named - {"producer.id.expiration.ms"} == set(KAFKA_DEFAULTS)


def test_texts_of_every_type() -> None:
    config = LogConfig.from_properties(
        {
            "segment.bytes": "1048576",
            "preallocate": "TRUE",
            "min.cleanable.dirty.ratio": ".25",
            "cleanup.policy": "compact, delete",
            "compression.type": "zstd",
        }
    )
    assert (config.segment_bytes, config.preallocate, config.min_cleanable_dirty_ratio) == (1 << 20, True, 0.25)
    assert config.is_compacted
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.with_properties({"cleanup.policy": "delete"}).is_compacted is False
    assert LogConfig.from_properties({"internal.segment.bytes": "14"}).segment_bytes == 14


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "many"),
        ("segment.ms", "0"),
        ("retention.ms", "-2"),
        ("max.compaction.lag.ms", "0"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "10"),
        ("message.timestamp.type", "Yesterday"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("cleanup.policy", "keep"),
        ("preallocate", "perhaps"),
        ("segment.colour", "blue"),
    ],
)
def test_refused(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match=key) as caught:
        LogConfig.from_properties({key: text})
    assert caught.value.code == 40


def test_a_topic_over_its_broker() -> None:
    broker = BrokerConfig.load(
        None,
        {
            "log.retention.hours": "1",
            "log.segment.bytes": "2000000",
            "log.cleanup.policy": "compact,delete",
            "producer.id.expiration.ms": "9",
        },
    )
    config = LogConfig.of(broker, {"retention.bytes": "7", "unclean.leader.election.enable": "true"})
    assert config == LogConfig(
        retention_ms=3_600_000,
        retention_bytes=7,
        segment_bytes=2_000_000,
        cleanup_policy=frozenset({"compact", "delete"}),
        producer_id_expiration_ms=9,
    )
    assert LogConfig.of() == LogConfig.of(BrokerConfig()) == LogConfig()


def test_what_a_user_sets_goes_by_kafkas_ranges() -> None:
    assert LogConfig.from_properties({"segment.bytes": "14"}).segment_bytes == 14
    with pytest.raises(ConfigError, match=r"segment.bytes: Value must be at least 1048576"):
        LogConfig.of(None, {"segment.bytes": "14"})
    for texts in ({"internal.segment.bytes": "99", "segment.bytes": "2000000"}, {"internal.segment.bytes": "99"}):
        assert LogConfig.of(None, texts).segment_bytes == LogConfig.from_properties(texts).segment_bytes == 99
    assert LogConfig.of(None, {"segment.index.bytes": "4"}).segment_index_bytes == 12
    for text in ("13", "0", "-2147483648"):
        assert LogConfig.from_properties({"internal.segment.bytes": text}).segment_bytes == 14
    assert LogConfig(compression_type="none").compression_type == "none"
    with pytest.raises(ConfigError, match=r"compression.type: String must be one of"):
        LogConfig.of(None, {"compression.type": "none"})
    with pytest.raises(ConfigError, match=r"Unknown topic config name: segment.colour"):
        LogConfig.of(None, {"segment.colour": "blue"})


def test_keys_of_others_can_be_passed_over() -> None:
    assert LogConfig.from_properties({"unclean.leader.election.enable": "true"}, ignore_unknown=True) == LogConfig()
