"""A topic's settings: its own over the broker's, and refused combinations. Kafka's LogConfigTest has the same cases."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.value_text import KeyType
from tidelog.model import ConfigError

HOUR_MS = 3_600_000
TIERED = {"remote.storage.enable": "true"}


def broker(**settings: str) -> BrokerConfig:
    return BrokerConfig.load(None, {key.replace("_", "."): text for key, text in settings.items()})


def tiered_broker(enabled: bool = True, **settings: str) -> BrokerConfig:
    return broker(remote_log_storage_system_enable=str(enabled).lower(), **settings)


def test_a_brokers_settings_are_a_topics_defaults() -> None:
    settings = TopicSettings.of(
        {},
        broker(
            log_roll_hours="2",
            log_roll_jitter_hours="2",
            log_retention_hours="960",
            log_local_retention_ms="2592000000",
            log_local_retention_bytes="4294967296",
        ),
    )
    assert settings["segment.ms"] == settings["segment.jitter.ms"] == 2 * HOUR_MS
    assert settings["retention.ms"] == 960 * HOUR_MS
    assert (settings.local_retention_ms, settings.local_retention_bytes) == (720 * HOUR_MS, 4 << 30)
    assert settings["preallocate"] is False
    assert settings["internal.segment.bytes"] is None


BELOW_MINUS_ONE = {
    "retention.bytes",
    "retention.ms",
    "compression.gzip.level",
    "compression.zstd.level",
    "remote.copy.lag.bytes",
    "remote.copy.lag.ms",
}
"""Keys for which -1 is a valid value."""


@pytest.mark.parametrize("name", TOPIC_KEYS)
def test_every_key_refuses_what_it_is_not(name: str) -> None:
    key = TOPIC_KEYS[name]
    bad = ["not_a_number"] if key.type is not KeyType.STRING or str(key.valid) else []
    if key.type in (KeyType.INT, KeyType.LONG, KeyType.DOUBLE) and str(key.valid) and name not in BELOW_MINUS_ONE:
        bad.append("-3" if name.startswith("local.") else "-1")
    for text in bad:
        with pytest.raises(ConfigError, match=f"for configuration {name}: "):
            TopicSettings.of({name: text})
    assert bad


def test_compaction_lags_that_contradict() -> None:
    with pytest.raises(ConfigError, match=r"min.compaction.lag.ms \(200\) > max.compaction.lag.ms \(100\)"):
        TopicSettings.of({"max.compaction.lag.ms": "100", "min.compaction.lag.ms": "200"})


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        *((text, True) for text in ("*", "* ", "", " ", "100:10", "100:10,12:10,15:1  ", "100:0,")),
        *((text, False) for text in ("100", "100:", "100:0,10", "100:0,10:   ", "100 :0,10:  ", "100: 0,10:   ")),
        *((text, False) for text in ("*,100:10", "* ,100:10", "100:0,,1:1")),
    ],
)
def test_throttled_replicas(text: str, is_valid: bool) -> None:
    for key in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        if is_valid:
            TopicSettings.of({key: text})
        else:
            with pytest.raises(ConfigError, match=r"must be the literal '\*' or a list of replicas"):
                TopicSettings.of({key: text})


def test_keys_without_a_brokers_default() -> None:
    assert TOPIC_SYNONYMS["file.delete.delay.ms"][0].name == "log.segment.delete.delay.ms"
    assert TOPIC_KEYS.keys() - TOPIC_SYNONYMS.keys() == {
        "errors.deadletterqueue.group.enable",
        "follower.replication.throttled.replicas",
        "internal.segment.bytes",
        "leader.replication.throttled.replicas",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }


def test_overrides_as_a_log_file_may_have_them() -> None:
    settings = TopicSettings(
        values={},
        overrides={
            "retention.bytes": "100",
            "min.insync.replicas": "2",
            "ssl.truststore.password": "sometrustpasswrd",
            "unknown.topic.password.config": "bbbb",
        },
    )
    assert settings.overrides_text() == (
        "{min.insync.replicas=2, retention.bytes=100, ssl.truststore.password=(redacted),"
        " unknown.topic.password.config=(redacted)}"
    )


def test_local_retention_is_that_of_the_topic_unless_it_is_set() -> None:
    plain = TopicSettings.of({})
    assert (plain.local_retention_ms, plain.local_retention_bytes) == (168 * HOUR_MS, -1)
    derived = TopicSettings.of({"retention.ms": "1000", "retention.bytes": "1024"})
    assert (derived.local_retention_ms, derived.local_retention_bytes) == (1000, 1024)
    own = TopicSettings.of(
        {
            "retention.ms": "1000",
            "retention.bytes": "2000",
            "local.retention.ms": "500",
            "local.retention.bytes": "1000",
        }
    )
    assert (own.local_retention_ms, own.local_retention_bytes) == (500, 1000)


@pytest.mark.parametrize(
    ("local_ms", "local_bytes", "bytes_", "ms"),
    [
        ("-3", "10", "2", "500"),
        ("500", "-3", "2", "1000"),
        ("2000", "2", "100", "1000"),
        ("500", "200", "100", "1000"),
        ("-1", "200", "100", "1000"),
        ("2000", "-1", "100", "1000"),
    ],
)
def test_local_retention_beyond_that_of_the_topic(local_ms: str, local_bytes: str, bytes_: str, ms: str) -> None:
    texts = {
        "retention.bytes": bytes_,
        "retention.ms": ms,
        "local.retention.ms": local_ms,
        "local.retention.bytes": local_bytes,
    }
    with pytest.raises(ConfigError, match=r"configuration local.retention"):
        TopicSettings.of(TIERED | texts, tiered_broker())


@pytest.mark.parametrize("policy", ["compact", "delete,compact", "compact,delete"])
def test_tiered_storage_refuses_compaction(policy: str) -> None:
    for allowed in ("delete", ""):
        assert TopicSettings.of(TIERED | {"cleanup.policy": allowed}, tiered_broker())["remote.storage.enable"] is True
    with pytest.raises(ConfigError, match=r"only supports topics with cleanup.policy=delete"):
        TopicSettings.of(TIERED | {"cleanup.policy": policy}, tiered_broker())


def test_tiered_storage_wants_the_brokers_consent() -> None:
    TopicSettings.of(TIERED, tiered_broker())
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled in the broker"):
        TopicSettings.of(TIERED, tiered_broker(False))


def test_tiered_storage_does_not_end_without_a_word_on_its_data() -> None:
    off: Mapping[str, str] = {"remote.storage.enable": "false"}
    with pytest.raises(ConfigError, match="invalid to disable remote storage without deleting remote data"):
        TopicSettings.of(off, tiered_broker(), before=TIERED)
    TopicSettings.of({**off, "remote.log.delete.on.disable": "true"}, tiered_broker(), before=TIERED)
    TopicSettings.of(off, tiered_broker(), before=off)
    TopicSettings.of(off, tiered_broker())


@pytest.mark.parametrize("unit", ["ms", "bytes"])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_brokers_local_retention_beyond_a_topics_whole(unit: str, enabled: bool) -> None:
    over = tiered_broker(enabled, **{f"log_retention_{unit}": "1000", f"log_local_retention_{unit}": "900"})
    texts = {"remote.storage.enable": str(enabled).lower(), f"retention.{unit}": "500"}
    if enabled:
        with pytest.raises(ConfigError, match=f"Invalid value 900 for configuration local.retention.{unit}"):
            TopicSettings.of(texts, over)
    else:
        assert TopicSettings.of(texts, over)[f"retention.{unit}"] == 500


@pytest.mark.parametrize("enabled", [True, False])
def test_a_brokers_local_retention_beyond_its_whole(enabled: bool) -> None:
    if enabled:
        with pytest.raises(ConfigError, match=r"Invalid value 2048 for configuration local.retention.bytes"):
            tiered_broker(enabled, log_retention_bytes="1024", log_local_retention_bytes="2048")
    else:
        tiered_broker(enabled, log_retention_bytes="1024", log_local_retention_bytes="2048")


@pytest.mark.parametrize("text", ["true", "false"])
@pytest.mark.parametrize("key", ["remote.log.copy.disable", "remote.log.delete.on.disable"])
def test_switches_of_remote_logs(key: str, text: str) -> None:
    assert TopicSettings.of({key: text})[key] is (text == "true")


def test_no_more_copies_leave_one_retention() -> None:
    texts = TIERED | {"remote.log.copy.disable": "true", "retention.ms": "9"}
    TopicSettings.of(texts | {"local.retention.ms": "9"}, tiered_broker())
    with pytest.raises(ConfigError, match=r"the `local.retention.ms` and `retention.ms` must be set to the identical"):
        TopicSettings.of(texts | {"local.retention.ms": "8"}, tiered_broker())
