"""How many clients of a listener showed who they are, and how many could not. Plain numbers, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AuthenticationCounts:
    """Since the start, by TLS or SASL; a listener with neither counts nothing."""

    successful: int = 0
    failed: int = 0
    successful_no_reauth: int = 0
    """Of the successful ones: those of clients that cannot authenticate again (KIP-368)."""
    successful_reauth: int = 0
    failed_reauth: int = 0
    expired: int = 0
    """Connections that were closed because they went on without authenticating again."""
