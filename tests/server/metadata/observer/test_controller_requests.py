"""The requests that change the metadata reach the active controller, and outlive its changes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from client.peer import run
from server.metadata.observer.joined_broker import BROKER, joined, topic_records, until
from server.metadata.observer.scripted_controller import ScriptedController
from tidelog.client.model.errors import ClientError, DisconnectedError, RequestTimedOutError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.observer_messages import QuorumNode
from tidelog.server.metadata.observer.controller_channel import ControllerChannel
from tidelog.server.metadata.observer.directory_assignments import MAX_ASSIGNMENTS, DirectoryAssignments, Replica
from tidelog.server.metadata.requests import NewTopic, PartitionAlteration

TOPIC = uuid.UUID(int=1001)


def test_producer_ids_and_topics(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            controller.handlers[ApiKey.ALLOCATE_PRODUCER_IDS] = lambda _values: {
                "error_code": 0,
                "producer_id_start": 5000,
                "producer_id_len": 1000,
            }
            assert await broker.metadata.allocate_producer_ids() == range(5000, 6000)
            request = controller.of(ApiKey.ALLOCATE_PRODUCER_IDS)[0]
            assert (request.broker_id, request.broker_epoch) == (BROKER, broker.metadata.broker_epoch)

            fenced = {"error_code": ErrorCode.STALE_BROKER_EPOCH, "producer_id_start": -1, "producer_id_len": 0}
            controller.scripts[ApiKey.ALLOCATE_PRODUCER_IDS].append(fenced)
            with pytest.raises(ApiError) as raised:
                await broker.metadata.allocate_producer_ids()
            assert raised.value.code == ErrorCode.STALE_BROKER_EPOCH

            controller.handlers[ApiKey.CREATE_TOPICS] = lambda values: {
                "topics": [{"name": one.name, "error_code": 36, "error_message": "exists"} for one in values.topics]
            }
            (result,) = await broker.metadata.create_topics([NewTopic(name="t", configs={"retention.ms": "5"})])
            assert (result.name, result.error, result.message) == ("t", ErrorCode.TOPIC_ALREADY_EXISTS, "exists")
            (asked,) = controller.of(ApiKey.CREATE_TOPICS)[0].topics
            assert (asked.num_partitions, asked.configs[0].value) == (-1, "5")

    run(work)


def test_in_sync_replicas_with_the_broker_epochs_of_their_fetches(tmp_path: Path) -> None:
    async def work() -> None:
        async with ScriptedController() as controller, joined(tmp_path, controller) as broker:
            controller.append(*topic_records("t", partitions=2))
            await until(lambda: "t" in broker.metadata.image.topics)

            def handle(values: Any) -> Mapping[str, Any]:
                (topic,) = values.topics
                accepted = {"partition_index": 0, "leader_id": BROKER, "leader_epoch": 0, "isr": [7, 8]}
                parts = [accepted | {"error_code": 0, "partition_epoch": 4}, {"partition_index": 1, "error_code": 95}]
                return {"error_code": 0, "topics": [{"topic_id": topic.topic_id, "partitions": parts}]}

            controller.handlers[ApiKey.ALTER_PARTITION] = handle
            asked = [
                PartitionAlteration(
                    topic_id=TOPIC,
                    partition=number,
                    isr=(7, 8),
                    leader_epoch=0,
                    partition_epoch=3,
                    broker_epochs=(1, 2),
                )
                for number in range(2)
            ]
            accepted, refused = await broker.metadata.alter_partitions(asked)
            assert accepted.state is not None
            assert (accepted.state.isr, accepted.state.partition_epoch) == ((7, 8), 4)
            assert (refused.outcome.error, refused.state) == (ErrorCode.INVALID_UPDATE_VERSION, None)
            part = controller.of(ApiKey.ALTER_PARTITION)[0].topics[0].partitions[0]
            assert [(one.broker_id, one.broker_epoch) for one in part.new_isr_with_epochs] == [(7, 1), (8, 2)]
            assert (part.leader_epoch, part.partition_epoch) == (0, 3)

    run(work)


class Links:
    """Connections whose controllers respond, or are away. The active one is ``active``."""

    def __init__(self, active: int) -> None:
        self.active = active
        self.is_away = False
        self.asked: list[int] = []

    async def send(self, node: Any, _api: ApiKey, _values: Any, **_options: Any) -> Any:
        self.asked.append(node.id)
        if self.is_away:
            raise DisconnectedError("away")
        return ErrorCode.NONE if node.id == self.active else ErrorCode.NOT_CONTROLLER


class TestChannel:
    async def ask(self, channel: ControllerChannel, timeout_ms: int = 10_000) -> Any:
        return await channel.ask(
            ApiKey.ENVELOPE,
            {},
            purpose="p",
            timeout_ms=timeout_ms,
            is_refused=lambda response: response is ErrorCode.NOT_CONTROLLER,
        )

    def channel(self, links: Links) -> ControllerChannel:
        loop = asyncio.get_running_loop()
        return ControllerChannel(
            links,  # type: ignore[arg-type] # it has the method that counts
            request_timeout_ms=1000,
            monotonic_ms=lambda: int(loop.time() * 1000),
        )

    def test_a_request_waits_for_a_leader_and_follows_it(self) -> None:
        async def work() -> None:
            links = Links(active=2)
            channel = self.channel(links)
            asking = asyncio.ensure_future(self.ask(channel))
            await asyncio.sleep(0)
            assert links.asked == []
            channel.announce(QuorumNode(1, "a", 1))
            await until(lambda: 1 in links.asked)
            channel.announce(QuorumNode(2, "b", 2))
            assert await asking is ErrorCode.NONE
            assert links.asked[-1] == 2

        run(work)

    def test_a_single_attempt_waits_for_a_leader_although_none_is_announced_first(self) -> None:
        async def work() -> None:
            links = Links(active=1)
            channel = self.channel(links)
            sending = asyncio.ensure_future(
                channel.send(ApiKey.BROKER_REGISTRATION, {}, purpose="p", timeout_ms=10_000)
            )
            await asyncio.sleep(0)
            channel.announce(None)
            await asyncio.sleep(0)
            channel.announce(QuorumNode(1, "a", 1))
            assert await sending is ErrorCode.NONE
            with pytest.raises(DisconnectedError, match="no active controller is known"):
                await self.channel(links).send(ApiKey.BROKER_REGISTRATION, {}, purpose="p", timeout_ms=20)

        run(work)

    def test_a_lost_connection_is_tried_again(self) -> None:
        async def work() -> None:
            links = Links(active=1)
            links.is_away = True
            channel = self.channel(links)
            channel.announce(QuorumNode(1, "a", 1))
            asking = asyncio.ensure_future(self.ask(channel))
            await until(lambda: len(links.asked) > 1)
            links.is_away = False
            assert await asking is ErrorCode.NONE

        run(work)

    def test_the_timeout_has_the_last_reason(self) -> None:
        async def work() -> None:
            channel = self.channel(Links(active=9))
            with pytest.raises(RequestTimedOutError, match="no active controller is known"):
                await self.ask(channel, timeout_ms=20)
            channel.announce(QuorumNode(1, "a", 1))
            with pytest.raises(RequestTimedOutError, match="controller 1 is no longer the active one"):
                await self.ask(channel, timeout_ms=20)

        run(work)


class TestAssignments:
    def replica(self, number: int) -> Replica:
        return TOPIC, number

    def test_they_share_requests_of_limited_size(self) -> None:
        async def work() -> None:
            sizes: list[int] = []

            async def send(directories: Mapping[Replica, uuid.UUID], /) -> Mapping[Replica, ErrorCode]:
                sizes.append(len(directories))
                return dict.fromkeys(directories, ErrorCode.NONE)

            assignments = DirectoryAssignments(send)
            running = asyncio.ensure_future(assignments.run())
            directory = uuid.UUID(int=5)
            await assignments.assign({self.replica(number): directory for number in range(MAX_ASSIGNMENTS + 1)})
            assert sizes == [MAX_ASSIGNMENTS, 1]
            running.cancel()

        run(work)

    def test_failures_are_repeated_and_topics_that_are_gone_are_not(self) -> None:
        async def work() -> None:
            first, second, gone = map(self.replica, range(3))
            responses: list[Mapping[Replica, ErrorCode] | ClientError] = [
                DisconnectedError("away"),
                {first: ErrorCode.NONE, second: ErrorCode.NOT_LEADER_OR_FOLLOWER, gone: ErrorCode.UNKNOWN_TOPIC_ID},
                {second: ErrorCode.NONE},
            ]
            sent: list[set[Replica]] = []

            async def send(directories: Mapping[Replica, uuid.UUID], /) -> Mapping[Replica, ErrorCode]:
                sent.append(set(directories))
                response = responses.pop(0)
                if isinstance(response, ClientError):
                    raise response
                return response

            assignments = DirectoryAssignments(send)
            running = asyncio.ensure_future(assignments.run())
            await assignments.assign(dict.fromkeys((first, second, gone), uuid.UUID(int=5)))
            assert sent == [{first, second, gone}, {first, second, gone}, {second}]
            running.cancel()

        run(work)

    def test_a_later_directory_replaces_one_that_waits(self) -> None:
        async def work() -> None:
            replica = self.replica(0)
            known: dict[Replica, uuid.UUID] = {}
            may_respond = asyncio.Event()

            async def send(directories: Mapping[Replica, uuid.UUID], /) -> Mapping[Replica, ErrorCode]:
                known.update(directories)
                await may_respond.wait()
                return dict.fromkeys(directories, ErrorCode.NONE)

            assignments = DirectoryAssignments(send)
            running = asyncio.ensure_future(assignments.run())
            before = asyncio.ensure_future(assignments.assign({replica: uuid.UUID(int=5)}))
            await until(lambda: bool(known))
            after = asyncio.ensure_future(assignments.assign({replica: uuid.UUID(int=6)}))
            await asyncio.sleep(0)
            may_respond.set()
            await asyncio.gather(before, after)
            assert known == {replica: uuid.UUID(int=6)}
            running.cancel()

        run(work)
