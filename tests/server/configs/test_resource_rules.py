"""The rules for a resource's settings agree with Kafka's own validator. One run of a JVM checks all cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from real_kafka.java import run_java
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TidelogError
from tidelog.server.configs.resource_rules import check_min_isr, check_resource
from tidelog.server.configs.resource_type import ResourceType

BROKER = {
    "node.id": "1",
    "process.roles": "broker",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "9@localhost:9093",
}
WIDE = {f"group.{kind}.max.heartbeat.interval.ms": "100000" for kind in ("consumer", "share", "streams")}


def topic(name: str, **properties: str) -> dict[str, Any]:
    return resource(ResourceType.TOPIC, name, properties)


def group(**properties: str) -> dict[str, Any]:
    return resource(ResourceType.GROUP, "g", properties)


def metrics(**properties: str) -> dict[str, Any]:
    return resource(ResourceType.CLIENT_METRICS, "m", properties)


def resource(
    kind: ResourceType, name: str, properties: dict[str, str], broker: dict[str, str] | None = None
) -> dict[str, Any]:
    texts = {key.replace("_", "."): text for key, text in properties.items()}
    return {"kind": "resource", "type": kind, "name": name, "properties": texts, "broker": BROKER | (broker or {})}


CASES = [
    *(topic(name) for name in ("", ".", "..", "a b", "käfer", "x", "a" * 249, "a" * 250, "__consumer_offsets")),
    topic("t", retention_ms="5"),
    topic("t", retention_ms="x"),
    topic("t", colour="blue"),
    topic("t", min_compaction_lag_ms="5", max_compaction_lag_ms="4"),
    *(resource(ResourceType.BROKER, name, {"log.dirs": "/x"}) for name in ("", "1", "-1", "x", "99", "1.5")),
    resource(ResourceType.BROKER_LOGGER, "1", {}),
    resource(ResourceType.GROUP, "", {}),
    group(colour="blue"),
    group(consumer_session_timeout_ms="0"),
    group(consumer_session_timeout_ms="x"),
    group(consumer_session_timeout_ms="44999"),
    group(consumer_session_timeout_ms="60001"),
    group(consumer_session_timeout_ms="60000"),
    group(consumer_heartbeat_interval_ms="4999"),
    group(consumer_heartbeat_interval_ms="15001"),
    group(share_heartbeat_interval_ms="1"),
    group(share_session_timeout_ms="1"),
    group(share_session_timeout_ms="60001"),
    group(share_record_lock_duration_ms="999"),
    group(share_record_lock_duration_ms="14999"),
    group(share_record_lock_duration_ms="60001"),
    *(
        group(share_auto_offset_reset=text)
        for text in ("earliest", "EARLIEST", "", "by_duration", "by_duration:", "by_duration:x", "by_duration:P", "x")
    ),
    *(
        group(share_auto_offset_reset=f"by_duration:{text}")
        for text in ("PT1H", "P1DT2H3M4.5S", "pt1h", "P1D", "P1DT", "PT", "-PT1H", "PT-1H", "PT1.5H", "PT0S")
    ),
    group(share_isolation_level="READ_COMMITTED"),
    group(share_isolation_level="read_committed"),
    group(streams_session_timeout_ms="1"),
    group(streams_heartbeat_interval_ms="15001"),
    group(streams_num_standby_replicas="3"),
    group(streams_num_standby_replicas="-1"),
    *(
        resource(ResourceType.GROUP, "g", {f"{kind}.heartbeat.interval.ms": "45000"}, WIDE)
        for kind in ("consumer", "share", "streams")
    ),
    *(group(consumer_assignment_interval_ms=text) for text in ("-1", "0", "15000", "15001")),
    *(group(share_assignment_interval_ms=text) for text in ("15000", "15001")),
    *(group(share_delivery_count_limit=text) for text in ("1", "2", "10", "11")),
    *(group(share_partition_max_record_locks=text) for text in ("99", "100", "4000", "4001")),
    *(group(streams_assignment_interval_ms=text) for text in ("15000", "15001")),
    *(group(streams_task_offset_interval_ms=text) for text in ("0", "14999", "15000")),
    *(group(streams_num_warmup_replicas=text) for text in ("-1", "20", "21")),
    *(group(streams_assignor_name=text) for text in ("sticky", "", "range")),
    *(group(streams_rack_aware_assignment_tags=text) for text in ("", "a,b", "a, a", "a,", ",", " a , a ")),
    *(group(errors_deadletterqueue_topic_name=text) for text in ("", "_x", "__x")),
    group(consumer_assignor_offload_enable="maybe"),
    group(streams_session_timeout_ms="45000", streams_heartbeat_interval_ms="15000"),
    *(
        resource(ResourceType.GROUP, "g", {f"{kind}.session.timeout.ms": "45000"}, {f"group.{kind}.{key}": "60000"})
        for kind in ("consumer", "share", "streams")
        for key in ("heartbeat.interval.ms", "max.heartbeat.interval.ms")
    ),
    resource(ResourceType.CLIENT_METRICS, "", {}),
    metrics(colour="blue"),
    *(metrics(interval_ms=text) for text in ("x", "", "99", "100", "3600000", "3600001")),
    metrics(metrics="*"),
    metrics(metrics=""),
    *(
        metrics(match=text)
        for text in ("", "client_id=x", "client_id= x , client_software_name=apache.*", "client_id=x=y", "client_id")
    ),
    *(metrics(match=text) for text in ("client_id=[", "colour=blue", " client_id =x", "client_id=", "=x")),
]


def case_name(case: dict[str, Any]) -> str:
    return f"{ResourceType(case['type']).name}-{case['name'][:20]}-{json.dumps(case['properties'])}"


@pytest.mark.kafka
def test_what_kafkas_controller_says(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("resources") / "cases"
    file.write_text("\n".join(map(json.dumps, CASES)))
    theirs = [json.loads(line) for line in run_java("ConfigKeys", file).splitlines()]
    told = {case_name(case): answer for case, answer in zip(CASES, theirs, strict=True)}
    assert {case_name(case): judged(case) for case in CASES} == told


def judged(case: dict[str, Any]) -> dict[str, Any]:
    """Return ``error`` and ``code``, or an empty dict if the settings are valid."""
    broker = BrokerConfig.load(None, case["broker"])
    try:
        check_resource(ResourceType(case["type"]), case["name"], case["properties"], before={}, broker=broker)
    except TidelogError as error:
        return {"error": error.message, "code": int(error.code)}
    return {}


def test_a_topic_that_was_tiered_is_asked_about() -> None:
    broker = BrokerConfig.load(None, {"remote.log.storage.system.enable": "true"})
    after, before = {"remote.storage.enable": "false"}, {"remote.storage.enable": "true"}
    with pytest.raises(TidelogError, match="disable remote storage without deleting remote data"):
        check_resource(ResourceType.TOPIC, "t", after, before=before, broker=broker)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("1", {"min.insync.replicas": "2"}, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        (
            "1",
            {"min.insync.replicas": None},
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            "",
            {"min.insync.replicas": None},
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        ),
    ],
)
def test_one_least_number_of_replicas(name: str, changes: dict[str, str | None], message: str) -> None:
    with pytest.raises(TidelogError) as caught:
        check_min_isr(name, changes)
    assert caught.value.message == message


def test_the_cluster_may_set_it() -> None:
    check_min_isr("", {"min.insync.replicas": "2"})
    check_min_isr("1", {"log.retention.ms": None})
