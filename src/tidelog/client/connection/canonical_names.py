"""The canonical names of servers: ``client.dns.lookup=resolve_canonical_bootstrap_servers_only``.

One name may stand for many brokers, by a round-robin entry of the DNS. Each of its addresses becomes a server under its
own name, so that Kerberos and certificates find the host that they name. An address without a name keeps its digits. A
name without an address stays as it is, and its connection fails with a clear error. Source: Kafka's
``ClientUtils.parseAndValidateAddresses``; KIP-235.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from tidelog.client.model.address import Address


async def canonical_servers(servers: Iterable[Address]) -> tuple[Address, ...]:
    """Return the servers under their canonical names, each once."""
    found = [one for server in servers for one in await _canonical(server)]
    return tuple(dict.fromkeys(found))


async def _canonical(server: Address) -> list[Address]:
    loop = asyncio.get_running_loop()
    try:
        infos = await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    except OSError:
        return [server]
    names = []
    for info in infos:
        ip = str(info[4][0])
        try:
            name, _ = await loop.getnameinfo((ip, server.port))
        except OSError:
            name = ip
        names.append(Address(name, server.port))
    return names
