"""The address of a chroot in ZooKeeper, as ``zookeeper.connect`` has it: ``host:2181,host2:2181/chroot``. Pure.

Source: Kafka's ``ZooKeeperClient``, ZooKeeper's ``ConnectStringParser``, ``PathUtils.validatePath``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

from tidelog.model import ConfigError

_SERVER: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/,\[\]]+)(?::(?P<port>[0-9]{1,5}))?")
_PORT: Final = "2181"
_LARGEST_PORT: Final = 65535


class ZooKeeperAddress(NamedTuple):
    servers: tuple[str, ...]
    """The servers as ``host:port``."""
    chroot: str
    """The path of the chroot without a slash at its end; empty for ZooKeeper's root."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raise ConfigError if the text is not an address."""
        hosts, slash, rest = text.strip().partition("/")
        servers = tuple(_server(text, host.strip()) for host in hosts.split(","))
        chroot = (slash + rest).rstrip("/")
        names = chroot.split("/")[1:]
        if any(name in ("", ".", "..") or not name.isprintable() for name in names):
            raise ConfigError(f"ZooKeeper address {text!r}: {chroot} is not a path of znodes")
        return cls(servers, chroot)

    def path(self, below: str) -> str:
        """Return the absolute path of a path below the chroot."""
        return (self.chroot + below).rstrip("/") or "/"

    def __str__(self) -> str:
        return ",".join(self.servers) + self.chroot


def _server(text: str, server: str) -> str:
    found = _SERVER.fullmatch(server)
    if found is None or int(found["port"] or _PORT) not in range(1, _LARGEST_PORT + 1):
        raise ConfigError(f"ZooKeeper address {text!r}: {server!r} is not a server (host:2181,host2:2181/chroot)")
    return server if found["port"] else f"{server}:{_PORT}"
