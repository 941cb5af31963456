"""The errors of the client. ``str(error)`` names the broker's address, the cause, and the next step.

=========================  =========  =================================================================================
error                      retriable  cause
=========================  =========  =================================================================================
DisconnectedError          yes        the connection cannot be made, or has ended before the response
RequestTimedOutError       yes        there is no response within the request's timeout
IdleConnectionError        yes        the connection had no requests for ``connections.max.idle.ms``
BrokenResponseError        yes        the peer breaks Kafka's protocol, so the connection is closed
AuthenticationError        no         TLS or SASL fails: a wrong password, an untrusted certificate, a lying server
UnsupportedVersionError    no         the broker and the client share no version of an API
ClientClosedError          no         the caller has closed the client
=========================  =========  =================================================================================

An error code in a response is an ``ApiError`` of ``tidelog.protocol.errors``, which callers raise where they read it.
"""

from __future__ import annotations

from typing import ClassVar

from tidelog.model import TidelogError


class ClientError(TidelogError):
    """The root of the client's errors."""

    is_retriable: ClassVar[bool] = False
    """True if the same request may succeed later, or at another broker."""


class DisconnectedError(ClientError):
    """The connection cannot be made, or has ended (NETWORK_EXCEPTION). A sent request may have been carried out."""

    code = 13
    is_retriable = True


class RequestTimedOutError(ClientError):
    """The response has not come in time (REQUEST_TIMED_OUT). The request may have been carried out."""

    code = 7
    is_retriable = True


class IdleConnectionError(DisconnectedError):
    """The connection was closed because it had no requests for ``connections.max.idle.ms``."""


class BrokenResponseError(DisconnectedError):
    """The peer has sent bytes that are no response to a request of this connection."""


class AuthenticationError(ClientError):
    """The broker refused the client, or the client refused the broker (SASL_AUTHENTICATION_FAILED)."""

    code = 58


class UnsupportedVersionError(ClientError):
    """Broker and client have no version of the API in common (UNSUPPORTED_VERSION)."""

    code = 35


class ClientClosedError(ClientError):
    """The caller has closed the client or the connection."""
