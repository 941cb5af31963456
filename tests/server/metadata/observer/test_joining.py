"""A broker joins a controller that a test scripts: registration, heartbeats, metadata and its controlled shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from client.peer import run
from server.metadata.observer.joined_broker import (
    BROKER,
    broker_config,
    client_of,
    format_directory,
    joined,
    produce,
    removal,
    start_error,
    topic_records,
    until,
)
from server.metadata.observer.scripted_controller import CLUSTER, CONTROLLER, ScriptedController
from tidelog.model import ConfigError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import BrokerState
from tidelog.server.broker import Broker
from tidelog.server.forwarding_dispatcher import ForwardingDispatcher
from tidelog.server.metadata.features import SUPPORTED

OFTEN = {"broker_heartbeat_interval_ms": "300"}
HEARTBEAT, REGISTRATION = ApiKey.BROKER_HEARTBEAT, ApiKey.BROKER_REGISTRATION


def test_a_broker_registers_catches_up_and_serves(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            (request,) = controller.of(REGISTRATION)
            (listener,) = request.listeners
            assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "127.0.0.1", broker.listeners[0].port)
            assert (request.broker_id, request.cluster_id, request.rack) == (BROKER, CLUSTER, "r")
            assert request.previous_broker_epoch == -1
            assert list(request.log_dirs) == [one.id for one in broker.logs.online]
            assert {one.name: one.max_supported_version for one in request.features} == {
                name: levels.latest for name, levels in SUPPORTED.items()
            }
            heartbeats = controller.of(HEARTBEAT)
            assert heartbeats[0].want_fence
            assert not heartbeats[-1].want_fence
            assert broker.state is BrokerState.RUNNING
            assert broker.metadata.broker_epoch == controller.image.brokers[BROKER].epoch
            state = json.loads((tmp_path / "__cluster_metadata-0" / "quorum-state").read_text())
            assert (state["leaderId"], state["leaderEpoch"], state["data_version"]) == (CONTROLLER, 1, 0)

            controller.append(*topic_records("t"))
            await until(lambda: "t" in broker.metadata.image.topics)
            async with client_of(broker) as client:
                assert (await produce(client, "t", b"v")).error_code == 0
            assigned = await controller.until(ApiKey.ASSIGN_REPLICAS_TO_DIRS)
            assert assigned.directories[0].id_ == broker.logs.online[0].id
            controller.append(removal())
            await until(lambda: broker.logs.log(TopicPartition("t", 0)) is None)

    run(work)


def test_clients_are_served_only_once_the_image_shows_the_broker_unfenced(tmp_path: Path) -> None:
    """A client that sees a cluster without brokers first may wait for its next refresh of metadata, five minutes."""

    async def work() -> None:
        async with ScriptedController() as controller:
            unfence = controller.handlers[HEARTBEAT]

            def unfence_unseen(request: Any) -> Mapping[str, Any]:
                controller.is_paused = controller.is_paused or not request.want_fence
                return unfence(request)

            controller.handlers[HEARTBEAT] = unfence_unseen
            config = broker_config(tmp_path, [controller], **OFTEN)
            format_directory(config)
            broker = Broker(config, ForwardingDispatcher)
            starting = asyncio.ensure_future(broker.start())
            await until(lambda: sum(not one.want_fence for one in controller.of(HEARTBEAT)) > 1)
            assert not starting.done()
            controller.handlers[HEARTBEAT] = unfence
            controller.is_paused = False
            await starting
            assert not broker.metadata.image.brokers[BROKER].is_fenced
            await broker.stop()

    run(work)


def test_a_clean_shutdown_leaves_its_epoch_for_the_next_registration(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller:
            async with joined(tmp_path, controller, **OFTEN) as broker:
                epoch = broker.metadata.broker_epoch
                controller.may_shut_down = False
                stopping = asyncio.ensure_future(broker.stop())
                await controller.until(HEARTBEAT, lambda request: request.want_shut_down)
                async with client_of(broker) as client:  # clients are served until the controller lets the broker stop
                    await client.send(ApiKey.METADATA, {"topics": []})
                assert not stopping.done()
                controller.may_shut_down = True
                await stopping
            async with joined(tmp_path, controller, **OFTEN) as broker:
                assert controller.of(REGISTRATION)[-1].previous_broker_epoch == epoch
                assert broker.metadata.broker_epoch > epoch

    run(work)


def test_a_leader_of_a_new_epoch_is_followed(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            controller.begin_epoch()
            controller.append(*topic_records("t"))
            await until(lambda: "t" in broker.metadata.image.topics)
            state = json.loads((tmp_path / "__cluster_metadata-0" / "quorum-state").read_text())
            assert state["leaderEpoch"] == 2

    run(work)


def test_a_snapshot_takes_the_place_of_records_that_a_running_broker_lacks(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller:
            async with joined(tmp_path, controller) as broker:
                controller.append(*topic_records("a", 1), *topic_records("b", 2))
                await until(lambda: "b" in broker.metadata.image.topics)
                controller.is_paused = True
                controller.append(removal(1), *topic_records("c", 3, partitions=2))
                controller.replace_log_by_snapshot()
                controller.is_paused = False
                controller.append(*topic_records("d", 4))
                await until(lambda: "d" in broker.metadata.image.topics)
                assert broker.metadata.image.topics.keys() == {"b", "c", "d"}
                await until(lambda: broker.logs.log(TopicPartition("a", 0)) is None)
                async with client_of(broker) as client:
                    assert (await produce(client, "c", b"v")).error_code == 0
                (file,) = (tmp_path / "__cluster_metadata-0").glob("*.checkpoint")
                assert controller.snapshot is not None
                assert file.read_bytes() == controller.snapshot[2]
            async with joined(tmp_path, controller) as broker:  # the start begins with that snapshot
                assert broker.metadata.image.topics.keys() == {"b", "c", "d"}

    run(work)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "another cluster"),
        (ErrorCode.UNSUPPORTED_VERSION, "a feature of the cluster is at a level that this release does not support"),
    ],
)
def test_a_registration_that_can_never_succeed_stops_the_broker(tmp_path: Path, error: ErrorCode, reason: str) -> None:
    async def work() -> None:
        async with ScriptedController() as controller:
            controller.scripts[REGISTRATION].append({"error_code": error})
            config = broker_config(tmp_path, [controller])
            format_directory(config)
            failure = await start_error(config)
            assert isinstance(failure, ConfigError)
            assert reason in failure.message
            assert len(controller.of(REGISTRATION)) == 1

    run(work)


def test_a_registration_is_tried_again_while_the_previous_session_lives(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with ScriptedController() as controller:
            refused = {"error_code": ErrorCode.DUPLICATE_BROKER_REGISTRATION}
            controller.scripts[REGISTRATION].extend([refused, refused])
            async with joined(tmp_path, controller, **OFTEN):
                assert len(controller.of(REGISTRATION)) >= 3

    with caplog.at_level(logging.ERROR):
        run(work)
    (line,) = [
        record.getMessage() for record in caplog.records if "another broker has this node.id" in record.getMessage()
    ]
    assert "tried again" in line


def test_without_a_controller_the_start_ends_with_the_reason(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller:
            config = broker_config(tmp_path, [controller], initial_broker_registration_timeout_ms="300")
        format_directory(config)
        failure = await start_error(config)
        assert isinstance(failure, ConfigError)
        assert "initial.broker.registration.timeout.ms" in failure.message

    run(work)


def test_a_directory_that_is_not_formatted_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller:
            failure = await start_error(broker_config(tmp_path, [controller]))
            assert isinstance(failure, ConfigError)
            assert "tidelog format with --cluster-id" in failure.message

    run(work)


def test_a_record_of_a_later_release_stops_a_running_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            reasons: list[str] = []
            broker.on_failure = reasons.append
            controller.append_value(bytes([1, 120, 0, 0]))
            await until(lambda: bool(reasons))
            assert "a later release of Kafka has written records" in reasons[0]

    run(work)


def test_kafkas_records_without_an_effect_here_do_not_disturb(tmp_path: Path) -> None:
    """The bytes are those of Kafka 4.4's MetadataRecordSerde: no operation, a delegation token, and its removal."""
    no_operation, removal_of_token = "01140000", "011a0008746f6b656e2d3100"
    token = (
        "010a000b557365723a616c6963650b557365723a61646d696e0209557365723a626f6200000000000003e80000000000000bb8"
        "00000000000007d008746f6b656e2d3100"
    )

    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller, **OFTEN) as broker:
            reasons: list[str] = []
            broker.on_failure = reasons.append
            for values in ((no_operation, token), (removal_of_token, no_operation)):
                for value in values:
                    controller.append_value(bytes.fromhex(value))
                await until(lambda: broker.metadata.applied_offset == controller.end_offset - 1)
                assert bool(broker.metadata.image.delegation_tokens) == (token in values)
            controller.append(*topic_records("t"))
            await until(lambda: "t" in broker.metadata.image.topics)
            async with client_of(broker) as client:
                assert (await produce(client, "t", b"v")).error_code == 0
            assert not reasons
        async with ScriptedController() as controller:  # a start that finds the records in its own log
            controller.append_value(bytes.fromhex(token))
            for _ in range(2):
                async with joined(tmp_path / "again", controller, **OFTEN) as broker:
                    assert broker.metadata.image.delegation_tokens

    run(work)


def test_failed_directories_are_in_all_further_heartbeats(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller, **OFTEN) as broker:
            failed = uuid.UUID(int=99)
            await broker.metadata.report_offline_directories([failed])
            await controller.until(HEARTBEAT, lambda request: list(request.offline_log_dirs) == [failed])
            count = len(controller.of(HEARTBEAT))
            await until(lambda: len(controller.of(HEARTBEAT)) > count + 1)
            assert list(controller.of(HEARTBEAT)[-1].offline_log_dirs) == [failed]

    run(work)


def test_a_broker_whose_epoch_is_stale_keeps_trying(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller, **OFTEN) as broker:
            controller.scripts[HEARTBEAT].append({"error_code": ErrorCode.STALE_BROKER_EPOCH})
            count = len(controller.of(HEARTBEAT))
            await until(lambda: len(controller.of(HEARTBEAT)) > count + 2)
            assert broker.state is BrokerState.RUNNING

    run(work)
