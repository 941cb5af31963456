"""Who a client is: what quotas are counted for and access is decided by.

Source: Kafka's ``KafkaPrincipal``.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Written ``type:name``, as in the settings and in access control lists."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""A client that nobody asked who it is."""
