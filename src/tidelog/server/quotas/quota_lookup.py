"""Lookup of the quota that applies to a client, and of the clients that share it. Pure.

=====================================  ======================================
the first of these that has the key    is shared by
=====================================  ======================================
this user with this client id          the user's clients with the id
this user, any client id               the user's clients with the id
this user                              all clients of the user
any user with this client id           the user's clients with the id
any user, any client id                the user's clients with the id
any user                               all clients of the user
this client id                         all clients with the id
any client id                          all clients with the id
=====================================  ======================================

Source: Kafka's ``ClientQuotaManager.DefaultQuotaCallback`` (KIP-55, KIP-124).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.server.metadata.image import QuotaEntity

_DEFAULT = None


class Sharers(NamedTuple):
    """The clients that share a quota. An empty field stands for every user or every client id."""

    user: str
    client_id: str


class FoundQuota(NamedTuple):
    limit: float
    sharers: Sharers


def find_quota(
    quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str, user: str, client_id: str
) -> FoundQuota | None:
    """Return the quota that applies, or None without a limit. ``quotas`` has the metadata's form."""
    both, of_user, of_client = Sharers(user, client_id), Sharers(user, ""), Sharers("", client_id)
    rows: tuple[tuple[QuotaEntity, Sharers], ...] = (
        ((("client-id", client_id), ("user", user)), both),
        ((("client-id", _DEFAULT), ("user", user)), both),
        ((("user", user),), of_user),
        ((("client-id", client_id), ("user", _DEFAULT)), both),
        ((("client-id", _DEFAULT), ("user", _DEFAULT)), both),
        ((("user", _DEFAULT),), of_user),
        ((("client-id", client_id),), of_client),
        ((("client-id", _DEFAULT),), of_client),
    )
    for entity, sharers in rows:
        limit = quotas.get(entity, {}).get(key)
        if limit is not None:
            return FoundQuota(limit, sharers)
    return None
