"""The connections to other brokers: one for each purpose, at the address that the metadata has now."""

from __future__ import annotations

import pytest

from client.peer import Peer, PeerConnection, run
from tidelog.client import ClientClosedError, DisconnectedError
from tidelog.client.model.address import Address
from tidelog.protocol.api_key import ApiKey
from tidelog.server.links.broker_links import BrokerLinks


async def serve(peer: PeerConnection) -> None:
    await peer.tell_versions()
    await peer.serve({ApiKey.LIST_GROUPS: {"groups": []}})


def test_each_purpose_has_its_connection() -> None:
    async def work() -> None:
        async with Peer(serve) as peer:
            links = BrokerLinks({1: peer.address}.get, peer.settings())
            for purpose in ("fetch", "markers", "fetch"):
                assert (await links.send(1, ApiKey.LIST_GROUPS, {}, purpose=purpose)).groups == ()
            assert peer.accepted == 2
            with pytest.raises(DisconnectedError, match="broker 2 is not registered"):
                await links.connection(2)
            links.close()
            with pytest.raises(ClientClosedError):
                await links.connection(1)

    run(work)


def test_a_broker_that_moves_gets_a_new_connection() -> None:
    async def work() -> None:
        async with Peer(serve) as before, Peer(serve) as after:
            addresses: dict[int, Address] = {1: before.address}
            links = BrokerLinks(addresses.get, before.settings())
            old = await links.connection(1)
            addresses[1] = after.address
            new = await links.connection(1)
            assert not old.is_open
            assert new is not old
            assert (before.accepted, after.accepted) == (1, 1)
            links.close()

    run(work)
