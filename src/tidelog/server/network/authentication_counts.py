"""Counts of the successful and failed authentications of a listener. Plain numbers for the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class AuthenticationCounts:
    """The counts since the start, by TLS or SASL. A listener with neither counts nothing."""

    successful: int = 0
    failed: int = 0
    successful_no_reauth: int = 0
    """The part of ``successful`` by clients that cannot authenticate again (KIP-368)."""
    successful_reauth: int = 0
    failed_reauth: int = 0
    expired: int = 0
    """Connections that were closed because the client went on without authenticating again."""
