"""The host of an ACL: an address, ``*`` for all addresses, or a range in CIDR notation (KIP-1276).

=================  =====================================================================
pattern            matches
=================  =====================================================================
``*``              every host
``10.1.2.3``       that address, compared as text
``10.0.0.0/8``     IPv4 addresses whose first 8 bits are those of 10.0.0.0
``2001:db8::/32``  IPv6 addresses, in the same way
an invalid range   no host. CreateAcls refuses it, so it comes only from another writer
=================  =====================================================================

Pure; any thread. Parsed ranges are cached. Source: Kafka's ``CidrUtils``, ``StandardAuthorizerData.findResult``.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final

from tidelog.server.authorization.resource import WILDCARD

_IPV4_RANGE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_IPV6_RANGE: Final = re.compile(r"(?P<address>[^/%]+)(?:%[^/]*)?/(?P<prefix>\d{1,3})", re.ASCII)
_IPV6_BITS: Final = 128

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def fits(pattern: str, host: str) -> bool:
    """Return True if the pattern matches ``host``, an address as text."""
    if pattern in (WILDCARD, host):
        return True
    if "/" not in pattern:
        return False
    network, address = _network(pattern), _address(host)
    return network is not None and address is not None and address in network


def is_range(pattern: str) -> bool:
    """Return True if the pattern has the form of a range, even of an invalid one."""
    return "/" in pattern


def parse_range(pattern: str) -> Network:
    """Return the range. Raise ValueError, with Kafka's message, if it is invalid."""
    return _ipv6_range(pattern) if ":" in pattern else _ipv4_range(pattern)


def _ipv4_range(pattern: str) -> ipaddress.IPv4Network:
    match = _IPV4_RANGE.fullmatch(pattern)
    if match is None:
        raise ValueError(f"Could not parse [{pattern}]")
    *octets, prefix = map(int, match.groups())
    for value, limit in (*((octet, 255) for octet in octets), (prefix, 32)):
        if value > limit:
            raise ValueError(f"Value [{value}] not in range [0,{limit}]")
    return ipaddress.IPv4Network((bytes(octets), prefix), strict=False)


def _ipv6_range(pattern: str) -> ipaddress.IPv6Network:
    match = _IPV6_RANGE.fullmatch(pattern)
    if match is None:
        raise ValueError(f"Could not parse [{pattern}]")
    prefix = int(match["prefix"])
    if prefix > _IPV6_BITS:
        raise ValueError(f"Could not parse [{pattern}] - prefix length must be between 0 and 128")
    try:
        address = ipaddress.IPv6Address(match["address"])
    except ValueError:
        raise ValueError(f"Could not parse [{match['address']}]") from None
    if address.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{match['address']}] - not an IPv6 address")
    return ipaddress.IPv6Network((address, prefix), strict=False)


@lru_cache(maxsize=10_000)
def _network(pattern: str) -> Network | None:
    try:
        return parse_range(pattern)
    except ValueError:
        return None


@lru_cache(maxsize=10_000)
def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
