"""The tables of keys and the handling of texts, compared with Kafka's own in two runs of a JVM."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest

from real_kafka.java import run_java
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS, PLUG_IN_KEYS
from tidelog.config.client_keys import ADMIN_KEYS, CONSUMER_NAMES
from tidelog.config.dynamic_changes import check_names
from tidelog.config.key import Key
from tidelog.config.origin import Origin, OriginKind, Setting
from tidelog.config.quota_keys import ADDRESS_QUOTAS, CLIENT_QUOTAS, REPLICATION_RATES
from tidelog.config.resources.client_subscription import CLIENT_METRICS_KEYS
from tidelog.config.resources.group_keys import GROUP_KEYS
from tidelog.config.synonyms import TOPIC_SYNONYMS
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.valid import Items
from tidelog.config.value_text import format_value
from tidelog.model import ConfigError

pytestmark = pytest.mark.kafka

T = TypeVar("T")

STARTS = {
    "node.id": "1",
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "9@localhost:9093",
}
"""The settings that Kafka needs to start a broker at all."""

TIERED = {"remote.log.storage.system.enable": "true"}


def topic(**properties: str) -> dict[str, Any]:
    return {"kind": "topic", "properties": {key.replace("_", "."): text for key, text in properties.items()}}


def topic_over(
    properties: Mapping[str, str], broker: Mapping[str, str], before: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {"kind": "topic", "properties": properties, "broker": {**STARTS, **broker}, "before": before or {}}


def broker(**properties: str) -> dict[str, Any]:
    return {"kind": "broker", "properties": STARTS | {key.replace("_", "."): text for key, text in properties.items()}}


def dynamic(*names: str, of_all: bool = False) -> dict[str, Any]:
    return {"kind": "dynamic", "properties": dict.fromkeys(names, "1"), "of_all": of_all}


TOPIC_TEXTS = [
    topic(),
    topic(segment_bytes="x"),
    topic(segment_bytes="1.5"),
    topic(segment_bytes=" 2000000 "),
    topic(segment_bytes="+2000000"),
    topic(segment_bytes="2_000_000"),
    topic(segment_bytes="99999999999"),
    topic(segment_bytes="1048575"),
    topic(segment_bytes=""),
    topic(segment_index_bytes="3"),
    topic(internal_segment_bytes="14"),
    topic(internal_segment_bytes="x"),
    topic(retention_ms="-2"),
    topic(retention_bytes="-7"),
    topic(flush_ms="9223372036854775807"),
    topic(flush_ms="9223372036854775808"),
    topic(preallocate="yes"),
    topic(preallocate=" TRUE "),
    topic(min_cleanable_dirty_ratio="1.5"),
    topic(min_cleanable_dirty_ratio="-0.1"),
    topic(min_cleanable_dirty_ratio="abc"),
    topic(min_cleanable_dirty_ratio=".5d"),
    topic(min_cleanable_dirty_ratio="1e-5"),
    topic(cleanup_policy="keep"),
    topic(cleanup_policy=""),
    topic(cleanup_policy="delete , compact"),
    topic(cleanup_policy="delete,"),
    topic(cleanup_policy="Delete"),
    topic(cleanup_policy="delete,compact,delete"),
    topic(cleanup_policy="delete,,compact"),
    topic(max_decompressed_message_bytes="0"),
    topic(max_decompressed_message_bytes="2147483640"),
    topic(remote_copy_lag_ms="-2"),
    topic(compression_type="lz5"),
    topic(compression_type="none"),
    topic(compression_gzip_level="0"),
    topic(compression_gzip_level="10"),
    topic(compression_lz4_level="18"),
    topic(compression_zstd_level="-131073"),
    topic(message_timestamp_type="Yesterday"),
    topic(leader_replication_throttled_replicas="1:"),
    topic(leader_replication_throttled_replicas="*"),
    topic(follower_replication_throttled_replicas="1:1,"),
    topic(min_insync_replicas="0"),
    topic(unclean_leader_election_enable="maybe"),
    topic(segment_colour="blue"),
    topic(min_compaction_lag_ms="5", max_compaction_lag_ms="4"),
    topic(local_retention_ms="-3"),
    topic(local_retention_ms="500", local_retention_bytes="1000", retention_ms="1000", retention_bytes="2000"),
    topic(retention_ms="1000", retention_bytes="1024"),
    topic_over({}, {"log.retention.minutes": "7", "log.segment.bytes": "2000000"}),
    topic_over({"retention.ms": "5", "segment.ms": "9"}, {"log.roll.hours": "3", "log.roll.jitter.hours": "2"}),
    topic_over({"remote.storage.enable": "true"}, {}),
    topic_over({"remote.storage.enable": "true"}, TIERED),
    topic_over({"remote.storage.enable": "true", "cleanup.policy": "compact"}, TIERED),
    topic_over({"remote.storage.enable": "true", "cleanup.policy": ""}, TIERED),
    topic_over({"remote.storage.enable": "true", "cleanup.policy": "delete,compact"}, TIERED),
    topic_over({"remote.storage.enable": "true", "retention.ms": "5", "local.retention.ms": "-1"}, TIERED),
    topic_over({"remote.storage.enable": "true", "retention.bytes": "5", "local.retention.bytes": "6"}, TIERED),
    topic_over({"remote.storage.enable": "true", "remote.log.copy.disable": "true", "local.retention.ms": "6"}, TIERED),
    topic_over({"remote.storage.enable": "true", "local.retention.ms": "7", "remote.copy.lag.ms": "8"}, TIERED),
    topic_over({"remote.storage.enable": "true", "local.retention.ms": "8", "remote.copy.lag.ms": "8"}, TIERED),
    topic_over({"remote.storage.enable": "true", "retention.bytes": "7", "remote.copy.lag.bytes": "8"}, TIERED),
    topic_over({"remote.storage.enable": "true", "retention.bytes": "-1", "remote.copy.lag.bytes": "8"}, TIERED),
    topic_over({"remote.copy.lag.bytes": "8", "local.retention.bytes": "7"}, TIERED),
    topic_over({"remote.storage.enable": "false"}, TIERED, {"remote.storage.enable": "true"}),
    topic_over(
        {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"},
        TIERED,
        {"remote.storage.enable": "true"},
    ),
]

BROKER_TEXTS = [
    broker(),
    broker(log_dirs=""),
    broker(log_dirs=" /a , /b,"),
    broker(log_dirs=" /a , /b,/a"),
    broker(log_dir="/a,/b"),
    broker(log_dirs="/a,/b", cordoned_log_dirs="/b"),
    broker(log_dirs="/a,/b", cordoned_log_dirs="*"),
    broker(log_dirs="/a,/b", cordoned_log_dirs="/a,*"),
    broker(log_dirs="/a,/b", cordoned_log_dirs="/c,/b, /d"),
    broker(log_dir="/a", cordoned_log_dirs="/a/"),
    broker(listeners=""),
    broker(controller_listener_names=""),
    broker(process_roles="broker,broker"),
    broker(group_coordinator_rebalance_protocols="classic,,share"),
    broker(group_coordinator_append_linger_ms="-2"),
    broker(log_retention_ms="0"),
    broker(log_retention_ms="-5"),
    broker(log_retention_minutes="-7"),
    broker(log_retention_hours="0"),
    broker(log_retention_hours="2", log_retention_minutes="3"),
    broker(log_roll_ms="0"),
    broker(log_roll_hours="0"),
    broker(log_roll_jitter_ms="-1"),
    broker(log_flush_scheduler_interval_ms="5"),
    broker(log_flush_interval_ms="6", log_flush_scheduler_interval_ms="5"),
    broker(log_cleaner_dedupe_buffer_size="1000"),
    broker(log_cleaner_max_compaction_lag_ms="3", log_cleaner_min_compaction_lag_ms="4"),
    broker(log_segment_bytes="1000"),
    broker(log_cleanup_policy="compact, delete"),
    broker(broker_id="2"),
    broker(broker_id="-1"),
    broker(broker_id="2", log_roll_ms="0"),
    broker(node_id="-1"),
    broker(process_roles="x"),
    broker(offsets_topic_replication_factor="40000"),
    broker(group_consumer_migration_policy="x"),
    broker(group_consumer_migration_policy="Upgrade"),
    broker(remote_log_storage_manager_impl_prefix=""),
    broker(ssl_client_auth="x"),
    broker(ssl_key_password="secret"),
    broker(remote_log_storage_system_enable="true", log_local_retention_ms="-1"),
    broker(log_local_retention_bytes="2048", log_retention_bytes="1024"),
    broker(remote_log_storage_system_enable="true", log_local_retention_bytes="2048", log_retention_bytes="1024"),
]

DYNAMIC_NAMES = [
    dynamic("log.dirs"),
    dynamic("log.retention.ms", "num.io.threads"),
    dynamic("ssl.keystore.location"),
    dynamic("listener.name.internal.ssl.keystore.location"),
    dynamic("listener.name.internal.ssl.keystore.location", of_all=True),
    dynamic("sasl.jaas.config"),
    dynamic("sasl.jaas.config", of_all=True),
    dynamic("cordoned.log.dirs"),
    dynamic("cordoned.log.dirs", of_all=True),
    dynamic("max.decompressed.message.bytes", of_all=True),
    dynamic("log.retention.bytes", of_all=True),
    dynamic("leader.replication.throttled.rate"),
]


@pytest.fixture(scope="module")
def kafka_keys() -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_java("ConfigKeys").splitlines()]


@pytest.fixture(scope="module")
def kafka_answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return Kafka's JSON result by request."""
    requests = [json.dumps(request) for request in TOPIC_TEXTS + BROKER_TEXTS + DYNAMIC_NAMES]
    file: Path = tmp_path_factory.mktemp("config") / "requests"
    file.write_text("\n".join(requests))
    return dict(zip(requests, map(json.loads, run_java("ConfigKeys", file).splitlines()), strict=True))


TABLES = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "metrics": CLIENT_METRICS_KEYS,
    "client-quota": CLIENT_QUOTAS,
    "address-quota": ADDRESS_QUOTAS,
    "rate": REPLICATION_RATES,
    "admin-client": ADMIN_KEYS,
}


@pytest.mark.parametrize(("kind", "table"), TABLES.items())
def test_the_tables_are_kafkas(kafka_keys: list[dict[str, Any]], kind: str, table: Mapping[str, Key]) -> None:
    theirs = {key["name"]: key for key in kafka_keys if key["kind"] == kind}
    assert set(table) - PLUG_IN_KEYS == set(theirs)
    assert len(theirs) == {"broker": 379, "topic": 38, "group": 27}.get(kind, len(table))
    for name, key in theirs.items():
        assert described(table[name]) == {
            "type": key["type"],
            "default": key["default"] or "",
            "valid": key["valid"] or "",
            "importance": key["importance"].lower(),
            "mode": key.get("mode", "read-only" if kind == "admin-client" else "cluster-wide"),
            "required": key["required"],
            "internal": key["internal"],
        }, name


def test_the_names_of_a_consumers_own_keys_are_kafkas(kafka_keys: list[dict[str, Any]]) -> None:
    consumer = {key["name"] for key in kafka_keys if key["kind"] == "consumer"}
    assert consumer - set(ADMIN_KEYS) == CONSUMER_NAMES


def described(key: Key) -> dict[str, object]:
    return {
        "type": key.type.value,
        "default": format_value(key.default),
        "valid": str(key.valid),
        "importance": key.importance.value,
        "mode": key.mode.value,
        "required": key.required,
        "internal": key.internal,
    }


def test_the_synonyms_are_kafkas(kafka_keys: list[dict[str, Any]]) -> None:
    theirs = {key["name"]: key["synonyms"] for key in kafka_keys if key["kind"] == "topic" and key["synonyms"]}
    assert {key: ",".join(one.name for one in synonyms) for key, synonyms in TOPIC_SYNONYMS.items()} == theirs


@pytest.mark.parametrize(("kind", "table"), TABLES.items())
def test_the_items_of_lists_are_kafkas(kafka_keys: list[dict[str, Any]], kind: str, table: Mapping[str, Key]) -> None:
    """Lists without items, with an empty item and with repeated items are treated as in Kafka."""
    theirs = {key["name"]: key for key in kafka_keys if key["kind"] == kind and key["type"] == "LIST"}
    assert {name for name in theirs if isinstance(table[name].valid, Items)} == {
        name for name, key in theirs.items() if key["drops_duplicates"]
    }
    for name in (name for name, key in theirs.items() if key["drops_duplicates"]):
        rule = table[name].valid
        assert rule.refusal(name, ()) == theirs[name]["of_nothing"], name
        assert rule.refusal(name, ("",)) == theirs[name]["of_an_empty_item"], name


@pytest.mark.parametrize("request_", TOPIC_TEXTS, ids=lambda request: json.dumps(request["properties"])[:60])
def test_topic_texts(kafka_answers: dict[str, dict[str, Any]], request_: dict[str, Any]) -> None:
    theirs = kafka_answers[json.dumps(request_)]
    over = BrokerConfig.load(None, request_["broker"]) if "broker" in request_ else None
    ours = attempt(lambda: TopicSettings.of(request_["properties"], over, before=request_.get("before")))
    if isinstance(ours, str):
        assert ours == theirs.get("error")
        return
    assert {key: format_value(value) for key, value in ours.values.items()} == texts(theirs["values"])
    assert ours.local_retention_ms == theirs["local.retention.ms"]
    assert ours.local_retention_bytes == theirs["local.retention.bytes"]
    assert ours.overrides_text() == theirs["overrides"]


@pytest.mark.parametrize("request_", BROKER_TEXTS, ids=lambda request: json.dumps(request["properties"])[120:])
def test_broker_texts(kafka_answers: dict[str, dict[str, Any]], request_: dict[str, Any]) -> None:
    theirs = kafka_answers[json.dumps(request_)]
    settings = {
        key: Setting(text=text, origin=Origin(kind=OriginKind.FILE, key=key, file="f", line=7))
        for key, text in request_["properties"].items()
    }
    ours = attempt(lambda: BrokerConfig(static=settings))
    if isinstance(ours, str):
        assert ours.removesuffix(" (f:7)") == theirs.get("error", "").removeprefix("requirement failed: ")
        return
    told = texts(theirs["values"]) | {"broker.id": format_value(ours.shown("broker.id"))}  # Kafka fills it from node.id
    assert {key: format_value(ours.shown(key)) for key in BROKER_KEYS.keys() - PLUG_IN_KEYS} == told
    assert {key: format_value(value) for key, value in ours.topic_defaults().items()} == texts(theirs["defaults"])


def attempt(make: Callable[[], T]) -> T | str:
    """Return the made value, or the message of its refusal."""
    try:
        return make()
    except ConfigError as error:
        return error.message


def texts(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: text or "" for key, text in values.items()}


@pytest.mark.parametrize("request_", DYNAMIC_NAMES, ids=lambda request: ",".join(request["properties"]))
def test_dynamic_names(kafka_answers: dict[str, dict[str, Any]], request_: dict[str, Any]) -> None:
    theirs = kafka_answers[json.dumps(request_)].get("error")
    ours = attempt(lambda: check_names(request_["properties"], cluster_wide=request_["of_all"]))
    assert ours == theirs
