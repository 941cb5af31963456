"""The address of a client as Java writes it, which is how groups keep it and administrators see it."""

from __future__ import annotations

from tidelog.server.request_context import RequestContext


def client_host(context: RequestContext) -> str:
    """``/127.0.0.1``: Java's ``InetAddress`` without a name."""
    return f"/{context.client_host}"
