"""The identity of a client, which quotas and authorization use. Source: Kafka's ``KafkaPrincipal``."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A principal, written ``type:name`` in settings and ACLs."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of a client that did not authenticate."""
