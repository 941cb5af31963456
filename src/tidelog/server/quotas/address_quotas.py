"""Connection creation rates by IP address, derived from the quotas of the metadata.

A host name, which Kafka allows too, applies to the addresses that it resolves to at that moment. A name without an
address is skipped and logged. Source: Kafka's ``ClientQuotaMetadataManager.handleIpQuota``.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Mapping

from tidelog.server.metadata.image import QuotaEntity
from tidelog.server.network.connection_rates import CONNECTION_CREATION_RATE

_log = logging.getLogger(__name__)


def address_quotas(quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str | None, float]:
    """Return connections per second by address, as the system writes it. The key None is the default for all others."""
    found: dict[str | None, float] = {}
    for entity, limits in quotas.items():
        limit = limits.get(CONNECTION_CREATION_RATE)
        if limit is None or len(entity) != 1 or entity[0][0] != "ip":
            continue
        name = entity[0][1]
        found |= dict.fromkeys([None] if name is None else _addresses(name), limit)
    return found


def _addresses(name: str) -> list[str]:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return _looked_up(name)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return [str(mapped or address)]


def _looked_up(host: str) -> list[str]:
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(host, None)]
    except (OSError, UnicodeError):
        _log.warning("The connection quota of host %r has no effect: the name does not resolve to an address", host)
        return []
