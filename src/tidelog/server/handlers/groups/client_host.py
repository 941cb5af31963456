"""The address of a client in Java's form, which groups store and administrators see."""

from __future__ import annotations

from tidelog.server.request_context import RequestContext


def client_host(context: RequestContext) -> str:
    """Return the address as Java's ``InetAddress`` prints it without a host name: ``/127.0.0.1``."""
    return f"/{context.client_host}"
