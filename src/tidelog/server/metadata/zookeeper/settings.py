"""The settings of a client of ZooKeeper."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress


@dataclass(frozen=True, slots=True)
class DigestLogin:
    """The user of SASL with DIGEST-MD5."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperSettings:
    """The address of ZooKeeper and the settings of a connection, with Kafka's defaults."""

    address: ZooKeeperAddress
    timeout_ms: int = 18_000
    """The timeout of the first connection. A reader has it for its session and for each response too."""
    session_timeout_ms: int = 18_000
    """The session of a broker ends if ZooKeeper has not heard from it for this time."""
    tls: ssl.SSLContext | None = None
    login: DigestLogin | None = None
    sets_acls: bool = False
    """Only this client's user can write the znodes that it creates (``zookeeper.set.acl``)."""
