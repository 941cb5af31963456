"""A cluster's metadata and connections, against scripted servers and tidelog's own broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest

from client.peer import LOOPS, PATIENCE_S, Peer, PeerConnection, Request, metadata_of, run
from tidelog.client import (
    Address,
    ClientClosedError,
    ClientError,
    ClientSettings,
    ClusterClient,
    DisconnectedError,
    RequestTimedOutError,
)
from tidelog.client.connection.canonical_names import canonical_servers
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.leader_hints import NodeEndpoint
from tidelog.testing import Broker

QUICK: dict[str, Any] = {
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 5,
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
}
Answer = Callable[[Request], dict[str, Any] | None]


def answering(answer: Answer) -> Callable[[PeerConnection], Awaitable[None]]:
    """Return a script of a server that responds by a function; None closes the connection."""

    async def script(peer: PeerConnection) -> None:
        await peer.tell_versions()
        while True:
            request = await peer.request()
            values = answer(request)
            if values is None:
                return
            await peer.respond(request, values)

    return script


class Cluster:
    """Scripted brokers with node ids from 1, which tell the same metadata until a test changes it."""

    def __init__(self, count: int) -> None:
        self.peers = [Peer(answering(self._answer(node))) for node in range(1, count + 1)]
        self.topics: dict[str, int] = {"flights": 1}
        self.requests: list[tuple[int, ApiKey]] = []
        self.metadata_values: dict[str, Any] = {}

    @property
    def nodes(self) -> dict[int, Address]:
        return {number: peer.address for number, peer in enumerate(self.peers, start=1)}

    def settings(self, **changes: Any) -> ClientSettings:
        return ClientSettings(**{"bootstrap": (self.peers[0].address,), **QUICK, **changes})

    def count(self, api: ApiKey) -> int:
        return sum(one is api for _, one in self.requests)

    def metadata(self) -> dict[str, Any]:
        return metadata_of(self.nodes, self.topics, **self.metadata_values)

    def _answer(self, node: int) -> Answer:
        def answer(request: Request) -> dict[str, Any] | None:
            self.requests.append((node, request.api))
            return self.metadata() if request.api is ApiKey.METADATA else {"groups": [{"group_id": str(node)}]}

        return answer


def with_cluster(
    count: int, use: Callable[[Cluster, ClusterClient], Awaitable[None]], loop: str = "asyncio", **settings: Any
) -> None:
    async def work() -> None:
        cluster = Cluster(count)
        async with AsyncExitStack() as stack:
            for peer in cluster.peers:
                await stack.enter_async_context(peer)
            async with ClusterClient(cluster.settings(**settings)) as client:
                await use(cluster, client)

    run(work, loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_the_metadata_of_a_broker(loop: str) -> None:
    with Broker() as broker:
        topic_id = broker.create_topic("flights", 3)
        host, port = broker.bootstrap_servers.split(":")

        async def work() -> None:
            settings = ClientSettings(bootstrap=(Address("127.0.0.1", 1), Address(host, int(port))), **QUICK)
            async with ClusterClient(settings) as client:
                metadata = await client.metadata_of(["flights", "nothing"])
                assert list(metadata.topics) == ["flights"]
                assert metadata.topics["flights"].topic_id == topic_id
                assert list(metadata.topics["flights"].partitions) == [0, 1, 2]
                leader = metadata.leader_of("flights", 2)
                assert leader is not None
                assert metadata.leader_of("flights", 3) is metadata.leader_of("nothing", 0) is None
                partition = {"partition_index": 2, "timestamp": -1}
                wanted = {"topics": [{"name": "flights", "partitions": [partition]}]}
                response = await client.send(leader.leader_id, ApiKey.LIST_OFFSETS, wanted)
                assert response.topics[0].partitions[0].offset == 0
                assert await client.controller_id() == leader.leader_id

        run(work, loop)


def test_fresh_metadata_is_not_asked_for_again() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        await client.metadata_of(["flights"])
        await client.metadata_of(["flights"])
        assert cluster.count(ApiKey.METADATA) == 1
        await client.metadata_of(["other"])  # which does not exist: this is known for as long
        await client.metadata_of(["other", "flights"])
        assert cluster.count(ApiKey.METADATA) == 2
        await client.metadata_of(None)
        await client.metadata_of(["flights", "third"])
        assert cluster.count(ApiKey.METADATA) == 3

    with_cluster(1, use)


def test_old_metadata_is_asked_for_again() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        for number in range(1, 4):
            await client.metadata_of(["flights"])
            assert cluster.count(ApiKey.METADATA) == number

    with_cluster(1, use, metadata_max_age_ms=-1)


def test_callers_at_the_same_time_share_one_request() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        first = asyncio.ensure_future(client.refresh(["flights"]))
        others = [asyncio.ensure_future(client.refresh(["flights"])) for _ in range(20)]
        await asyncio.sleep(0)
        first.cancel()  # the others are served nevertheless
        await asyncio.gather(*others)
        assert cluster.count(ApiKey.METADATA) == 1

    with_cluster(1, use)


def test_a_deleted_topic_leaves_the_metadata() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        cluster.topics = {"flights": 1, "other": 1}
        await client.metadata_of(None)
        cluster.topics = {"other": 1}
        assert set((await client.refresh(["flights"])).topics) == {"other"}
        cluster.topics = {}
        assert not (await client.refresh(None)).topics

    with_cluster(1, use)


def test_requests_go_to_the_named_broker_with_a_connection_for_each_purpose() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        await client.metadata_of([])
        for node in (1, 2, 3):
            response = await client.send(node, ApiKey.LIST_GROUPS, {})
            assert response.groups[0].group_id == str(node)
        one, same, other = [await client.connection(2, purpose) for purpose in ("", "", "fetch")]
        assert one is same is not other
        assert cluster.peers[1].accepted == 2
        with pytest.raises(DisconnectedError, match="broker 4 is not in the metadata of the cluster; known brokers: 1"):
            await client.send(4, ApiKey.LIST_GROUPS, {})

    with_cluster(3, use)


def test_a_lost_connection_is_opened_again_after_the_back_off() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        await client.metadata_of([])
        for _ in range(3):
            connection = await client.connection(2)
            cluster.peers[1].drop()
            while connection.is_open:
                await asyncio.sleep(0.001)
            await client.send(2, ApiKey.LIST_GROUPS, {})
        assert cluster.peers[1].accepted == 4

    with_cluster(2, use)


def test_a_broker_that_moved_its_address() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        await client.metadata_of([])
        old = await client.connection(2)
        cluster.peers[1:] = [cluster.peers[2], cluster.peers[1]]  # brokers 2 and 3 swap their addresses
        await client.refresh([])
        assert not old.is_open
        with pytest.raises(DisconnectedError, match="is gone or has another address"):
            await old.send(ApiKey.LIST_GROUPS, {})
        assert (await client.send(2, ApiKey.LIST_GROUPS, {})).groups[0].group_id == "3"

    with_cluster(3, use)


def test_a_broker_that_hangs_delays_nobody() -> None:
    """The first server accepts and never responds; metadata and other brokers are reached without it."""

    async def work() -> None:
        cluster = Cluster(2)
        async with Peer(PeerConnection.until_closed) as silent, cluster.peers[0], cluster.peers[1]:
            settings = cluster.settings(
                bootstrap=(silent.address, cluster.peers[0].address),
                hedge_ms=20,
                connection_setup_timeout_ms=600_000,  # longer than the test may take
                connection_setup_timeout_max_ms=600_000,
            )
            cluster.peers.append(silent)
            async with ClusterClient(settings) as client:
                await client.metadata_of(["flights"])
                stuck = asyncio.ensure_future(client.send(3, ApiKey.LIST_GROUPS, {}))
                for node in (1, 2):
                    await client.send(node, ApiKey.LIST_GROUPS, {})
                await client.refresh(None)
                assert not stuck.done()
            with pytest.raises(ClientClosedError):
                await stuck

    run(work)


def test_the_bootstrap_servers_are_asked_again_if_no_known_broker_responds() -> None:
    async def work() -> None:
        cluster = Cluster(1)
        async with Peer(answering(lambda request: None)) as bad:
            dead = bad.address
        async with cluster.peers[0] as peer:
            cluster.peers = [peer]
            async with ClusterClient(cluster.settings()) as client:
                real, told = cluster.nodes, {7: dead}
                cluster.metadata_values = {"brokers": metadata_of(told)["brokers"]}
                await client.refresh([])
                assert set(client.metadata.nodes) == {7}
                cluster.metadata_values = {}
                await client.refresh([])
                assert {node.node_id: node.address for node in client.metadata.nodes.values()} == real

    run(work)


def test_without_rebootstrap_only_known_brokers_are_asked() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        async with Peer(answering(lambda request: None)) as bad:
            cluster.metadata_values = {"brokers": metadata_of({7: bad.address})["brokers"]}
        await client.refresh([])
        cluster.metadata_values, asked = {}, cluster.count(ApiKey.METADATA)
        with pytest.raises(ClientError, match="cannot connect to broker 7"):
            await client.refresh([])
        assert cluster.count(ApiKey.METADATA) == asked
        assert set(client.metadata.nodes) == {7}

    with_cluster(1, use, rebootstraps=False, retries=0)


def test_known_brokers_that_send_no_metadata_for_long_are_forgotten() -> None:
    async def work() -> None:
        cluster = Cluster(1)
        async with Peer(PeerConnection.until_closed) as silent, cluster.peers[0]:
            patience = dict.fromkeys(("hedge_ms", "connection_setup_timeout_ms"), PATIENCE_S * 1000)
            settings = cluster.settings(rebootstrap_trigger_ms=50, default_api_timeout_ms=10_000, **patience)
            async with ClusterClient(settings) as client:
                cluster.metadata_values = {"brokers": metadata_of({7: silent.address})["brokers"]}
                await client.refresh([])
                cluster.metadata_values = {}
                try:
                    assert set((await client.refresh([])).nodes) == {1}
                except RequestTimedOutError:
                    pytest.fail("only the silent broker was asked")

    run(work)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_failed_request_is_repeated_as_often_as_the_setting_says(retries: int) -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        cluster.metadata_values = {"error_code": int(ErrorCode.UNKNOWN_SERVER_ERROR)}
        with pytest.raises(ClientError, match="sends no metadata"):
            await client.refresh([])
        assert cluster.count(ApiKey.METADATA) == 1 + retries

    with_cluster(1, use, retries=retries)


def test_bootstrap_servers_under_their_canonical_names() -> None:
    """A broker's certificate, or a Kerberos principal, may be for that name only."""

    async def use(cluster: Cluster, client: ClusterClient) -> None:
        (server,) = client.settings.bootstrap
        name, _ = socket.getnameinfo((server.host, server.port), 0)
        assert name != server.host, "the machine has a name for its loopback address"
        await asyncio.gather(client.refresh([]), client.refresh(None))
        assert [link.address for link in client._bootstrap] == [Address(name, server.port)]

    with_cluster(1, use, uses_canonical_names=True)


def test_a_name_that_does_not_exist_stays_a_bootstrap_server() -> None:
    missing = Address("no-such-host.invalid", 9)

    async def work() -> None:
        assert await canonical_servers([missing, missing]) == (missing,)

    run(work)


def test_no_broker_responds_in_time() -> None:
    async def work() -> None:
        async with Peer(PeerConnection.until_closed) as silent:
            settings = silent.settings(**QUICK, default_api_timeout_ms=80)
            async with ClusterClient(settings) as client:
                with pytest.raises(
                    RequestTimedOutError, match=r"no broker of 127.0.0.1:\d+ has sent metadata within 80"
                ):
                    await client.metadata_of(None)
        async with ClusterClient(settings) as client:  # now the port is closed
            with pytest.raises(ClientError, match="cannot connect to server"):
                await client.metadata_of(None)

    run(work)


def test_a_server_of_another_cluster_is_not_believed() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        await client.metadata_of(None)
        cluster.metadata_values = {"cluster_id": "another"}
        with pytest.raises(ClientError, match="belongs to cluster another, but this client's cluster is cluster"):
            await client.refresh(None)
        assert client.metadata.cluster_id == "cluster"

    with_cluster(1, use, default_api_timeout_ms=3_000)


def test_close_ends_every_call() -> None:
    async def work() -> None:
        async with Peer(PeerConnection.until_closed) as silent:
            client = ClusterClient(silent.settings())
            waiting = asyncio.ensure_future(client.metadata_of(None))
            await asyncio.sleep(0.01)
            client.close()
            client.close()
            with pytest.raises(ClientClosedError, match="is closed"):
                await waiting
            with pytest.raises(ClientClosedError, match="is closed"):
                await client.refresh(None)

    run(work)


def test_a_cluster_without_a_controller_gets_one() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        cluster.metadata_values = {"controller_id": -1}
        waiting = asyncio.ensure_future(client.controller_id())
        while cluster.count(ApiKey.METADATA) < 3:
            await asyncio.sleep(0.001)
        cluster.metadata_values = {"controller_id": 2}
        assert await waiting == 2
        cluster.metadata_values = {"controller_id": 1}
        assert await client.controller_id() == 2
        assert await client.controller_id(fresh=True) == 1

    with_cluster(2, use)


# --- leaders ---


def partition_values(leader: int, epoch: int, topic_id: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "leader_id": leader, "leader_epoch": epoch, "error_code": 0}
    return {"topics": [{"name": "flights", "topic_id": UUID(int=topic_id), "error_code": 0, "partitions": [partition]}]}


def test_metadata_of_a_broker_that_lags_behind_does_not_replace_newer_metadata() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        for told, expected in (
            (partition_values(1, 5, 9), (1, 5)),
            (partition_values(2, 4, 9), (1, 5)),  # an older epoch
            (partition_values(2, 6, 9), (2, 6)),
            (partition_values(1, 0, 10), (1, 0)),  # the topic was deleted and created again
        ):
            cluster.metadata_values = told
            leader = (await client.refresh(["flights"])).leader_of("flights", 0)
            assert leader is not None
            assert (leader.leader_id, leader.leader_epoch) == expected

    with_cluster(2, use)


def test_leader_hints_of_responses() -> None:
    async def use(cluster: Cluster, client: ClusterClient) -> None:
        def leader() -> tuple[int, int]:
            found = client.metadata.leader_of("flights", 0)
            assert found is not None
            return found.leader_id, found.leader_epoch

        cluster.metadata_values = {
            **partition_values(1, 5, 9),
            "brokers": metadata_of({1: cluster.nodes[1]})["brokers"],
        }
        await client.refresh(["flights"])
        client.learn_leader("flights", 0, 2, 6)
        assert leader() == (1, 5), "a broker without a known address is no leader"
        endpoint = NodeEndpoint(2, *cluster.nodes[2])
        client.learn_leader("flights", 0, 2, 5, [endpoint])
        assert leader() == (1, 5), "the epoch is not newer"
        client.learn_leader("flights", 0, 2, 6, [endpoint])
        assert leader() == (2, 6)
        assert (await client.send(2, ApiKey.LIST_GROUPS, {})).groups[0].group_id == "2"
        client.learn_leader("flights", 1, 2, 7, [endpoint])
        client.learn_leader("nothing", 0, 2, 7, [endpoint])
        assert client.metadata.leader_of("flights", 1) is None

    with_cluster(2, use)


def test_a_broker_that_asks_for_a_new_bootstrap() -> None:
    """REBOOTSTRAP_REQUIRED (KIP-1102): the known brokers are forgotten, and the bootstrap servers asked."""

    async def use(cluster: Cluster, client: ClusterClient) -> None:
        await client.refresh([])
        cluster.metadata_values = {"error_code": int(ErrorCode.REBOOTSTRAP_REQUIRED)}
        waiting = asyncio.ensure_future(client.refresh([]))
        while cluster.count(ApiKey.METADATA) < 3:
            await asyncio.sleep(0.001)
        assert not client.metadata.nodes
        cluster.metadata_values = {}
        assert set((await waiting).nodes) == {1, 2}

    with_cluster(2, use)
