"""Addresses of brokers, and the parser of ``bootstrap.servers``. Pure.

``kafka-1:9092,[2001:db8::1]:9093`` are two servers. Source: Kafka's ``ClientUtils.parseAndValidateAddresses``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model import ConfigError

_SERVER = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_HIGHEST_PORT = 65535


class Address(NamedTuple):
    """A host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(key: str, texts: Iterable[str]) -> tuple[Address, ...]:
    """Return the addresses of a setting's items, each once. Raise ConfigError with the item that is no address."""
    found = []
    for text in filter(None, texts):
        match = _SERVER.fullmatch(text)
        if match is None or int(match["port"]) > _HIGHEST_PORT:
            raise ConfigError(f"{key}: {text!r} is not HOST:PORT, such as kafka-1:9092 or [2001:db8::1]:9092")
        found.append(Address(match["ipv6"] or match["host"], int(match["port"])))
    if not found:
        raise ConfigError(f"{key} names no server; set it to HOST:PORT of one or more brokers, separated by commas")
    return tuple(dict.fromkeys(found))
