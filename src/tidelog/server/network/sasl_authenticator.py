"""The SASL authentication of a connection. The broker gets a client's requests only after that.

==========  ==========================================  ==============================================================
state       request                                     effect
==========  ==========================================  ==============================================================
versions    ApiVersions                                 the response, then *handshake*; an unsupported version leaves
                                                        the state as it was
versions,   SaslHandshake with an offered mechanism     *tokens*; after version 0 bare tokens follow, without headers
handshake
tokens      a token, in SaslAuthenticate or bare        the next token, or *open*
open        SaslHandshake, if authentications expire,   *tokens* again; they must lead to the same user by the same
            at least 1 s after the previous one         mechanism (KIP-368)
            any other, after the expiry                 the connection is closed
            any other                                   the broker's response
all others  any other                                   the authentication fails
==========  ==========================================  ==============================================================

A failure is logged in one line, without secrets. Its response is delayed by
``connection.failed.authentication.delay.ms`` to slow down guessing, and then the connection is closed. Nothing is read
meanwhile. Until *open*, a request has at most ``sasl.server.max.receive.size`` bytes.
Thread rule: the event loop only.
Source: Kafka's ``SaslServerAuthenticator``, and ``Processor`` in ``SocketServer``.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode, MalformedMessageError
from tidelog.protocol.frames import Frame, length_prefix
from tidelog.protocol.headers import RequestHeader, read_request_header, response_header
from tidelog.protocol.messages import read_request, write_response
from tidelog.runtime.timers import Timers
from tidelog.server.network.client_connection import CLOSE_AFTER_RESPONSE, ClientConnection
from tidelog.server.network.connection import Reply, Service
from tidelog.server.network.send_queue import Part
from tidelog.server.security.listener_security import AuthenticationCounts
from tidelog.server.security.principal import Principal
from tidelog.server.security.sasl_exchange import SaslError, SaslExchange
from tidelog.server.security.sasl_settings import SaslSettings, ScramCredentialsOf

_REAUTH_EVERY_MS = 1000
"""The shortest time between two reauthentications of a client."""
_HANDSHAKE_START = int(ApiKey.SASL_HANDSHAKE).to_bytes(2)
"""The first bytes of a SaslHandshake request."""

_log = logging.getLogger(__name__)


class _State(enum.Enum):
    VERSIONS = enum.auto()
    HANDSHAKE = enum.auto()
    TOKENS = enum.auto()
    OPEN = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticatorSetup:
    """The settings and services that all authenticators of a listener share."""

    settings: SaslSettings
    service: Service
    """The service for authenticated clients."""
    credentials_of: ScramCredentialsOf
    timers: Timers
    counts: AuthenticationCounts


class SaslAuthenticator:
    """The authenticator of one connection."""

    def __init__(self, setup: AuthenticatorSetup, on_open: Callable[[Service], None]) -> None:
        """Create the authenticator. ``on_open`` is called after the authentication with the service for later requests.
        That service is this authenticator itself if authentications expire."""
        self._setup = setup
        self._on_open = on_open
        self._state = _State.VERSIONS
        self._mechanism = self._requested_mechanism = ""
        self._exchange: SaslExchange | None = None
        self._uses_bare_tokens = False
        self._is_reauthentication = False
        self._can_reauthenticate = False
        self._began_ms: int | None = None
        """The start of the last reauthentication."""
        self._expires_ms: int | None = None
        """The expiry by the monotonic clock, or None."""

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Handle a request as ``Service.begin`` does."""
        if self._state is _State.OPEN:
            if self._expires_ms is None:
                return self._setup.service.begin(frame, client)
            return self._begin_until(self._expires_ms, frame, client)
        return self._authenticate(frame, client)

    def _begin_until(self, expires_ms: int, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Handle a request if authentications expire. Reauthentication is allowed even after the expiry, as in
        Kafka."""
        now_ms = self._setup.timers.monotonic_ms()
        is_due = self._began_ms is None or now_ms - self._began_ms >= _REAUTH_EVERY_MS
        if bytes(frame[: len(_HANDSHAKE_START)]) == _HANDSHAKE_START and is_due:
            self._began_ms, self._is_reauthentication, self._state = now_ms, True, _State.HANDSHAKE
            return self._authenticate(frame, client)
        if now_ms >= expires_ms:
            self._setup.counts.expired += 1
            _log.info("Connection of %s closed: its authentication has expired", client)
            client.throttle_ms = CLOSE_AFTER_RESPONSE
            return None
        return self._setup.service.begin(frame, client)

    def _authenticate(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        try:
            if self._state is _State.TOKENS:
                return self._bare_token(frame, client) if self._uses_bare_tokens else self._framed_token(frame, client)
            return self._handshake(frame, client)
        except MalformedMessageError as error:
            hint = "" if self._is_reauthentication else "; does the client use TLS, or no SASL?"
            return self._reject(client, f"{error}{hint}", None)

    def _handshake(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        header = read_request_header(frame)
        if header.api is ApiKey.API_VERSIONS and self._state is _State.VERSIONS:
            if header.version in VERSIONS[ApiKey.API_VERSIONS]:
                self._state = _State.HANDSHAKE
            return self._setup.service.begin(frame, client)
        if header.api is not ApiKey.SASL_HANDSHAKE:
            raise MalformedMessageError(f"received {header.api.title} instead of SaslHandshake")
        self._requested_mechanism = mechanism = str(_body(header, frame).mechanism)
        offered = self._setup.settings.mechanisms
        if mechanism not in offered:
            response = {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": offered}
            return self._reject(client, f"SASL mechanism {mechanism[:64]!r} is not offered", _reply(header, response))
        if self._is_reauthentication and mechanism != self._mechanism:
            self._exchange = None  # the next token gets the error, as in Kafka
        else:
            self._mechanism = mechanism
            self._exchange = self._setup.settings.exchange(mechanism, self._setup.credentials_of)
        self._uses_bare_tokens = header.version == 0
        self._state = _State.TOKENS
        return _reply(header, {"error_code": ErrorCode.NONE, "mechanisms": offered})

    def _bare_token(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        try:
            token = self._respond(bytes(frame), client)
        except SaslError as error:
            return self._reject(client, error.message, None)
        if self._exchange is None:
            self._accept_client(can_reauthenticate=False)
        return [length_prefix([token]), token]

    def _framed_token(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        header = read_request_header(frame)
        if header.api is not ApiKey.SASL_AUTHENTICATE:
            raise MalformedMessageError(f"received {header.api.title} instead of SaslAuthenticate")
        body = _body(header, frame)
        self._can_reauthenticate = self._can_reauthenticate or header.version > 0
        try:
            token = self._respond(bytes(body.auth_bytes), client)
        except SaslError as error:
            client_message = error.client_message or self._generic_text()
            response = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": client_message}
            return self._reject(client, error.message, _reply(header, response))
        lifetime_ms = self._accept_client(can_reauthenticate=self._can_reauthenticate) if self._exchange is None else 0
        return _reply(header, {"error_code": ErrorCode.NONE, "auth_bytes": token, "session_lifetime": lifetime_ms})

    def _respond(self, token: bytes, client: ClientConnection) -> bytes:
        """Return the response to a token. If the client is authenticated now, ``_exchange`` is None."""
        if self._exchange is None:
            client_message = (
                f"SASL mechanism '{self._requested_mechanism}' requested by client is not supported for"
                f" re-authentication of mechanism '{self._mechanism}'"
            )
            raise SaslError("the client asked for another mechanism than before", client_message=client_message)
        response = self._exchange.respond(token)
        if self._exchange.user is not None:
            principal = Principal("User", self._exchange.user)
            if self._is_reauthentication and principal != client.principal:
                client_message = (
                    "Cannot change principals during re-authentication from "
                    f"{client.principal.type}.{client.principal.name}: {principal.type}.{principal.name}"
                )
                raise SaslError("the client authenticated as another user than before", client_message=client_message)
            client.principal, client.is_authenticated = principal, True
            self._exchange = None
        return response

    def _accept_client(self, *, can_reauthenticate: bool) -> int:
        """Accept the client. Return the lifetime of its authentication in ms; 0 means no expiry."""
        setup, lifetime_ms = self._setup, self._setup.settings.max_reauth_ms[self._mechanism]
        self._state = _State.OPEN
        self._expires_ms = setup.timers.monotonic_ms() + lifetime_ms if lifetime_ms else None
        if self._is_reauthentication:
            setup.counts.successful_reauth += 1
            return lifetime_ms
        setup.counts.successful += 1
        setup.counts.successful_no_reauth += not can_reauthenticate
        self._on_open(self if lifetime_ms else setup.service)
        return lifetime_ms

    def _reject(self, client: ClientConnection, reason: str, response: Reply) -> Reply | Awaitable[Reply]:
        """Close the connection after ``response``, which is delayed."""
        counts, settings = self._setup.counts, self._setup.settings
        if self._is_reauthentication:
            counts.failed_reauth += 1
        else:
            counts.failed += 1
        what = "re-authentication" if self._is_reauthentication else "authentication"
        _log.warning("Connection of %s closed: %s at listener %s failed: %s", client, what, client.listener, reason)
        client.throttle_ms = CLOSE_AFTER_RESPONSE
        if not settings.failure_delay_ms:
            return response
        later: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._setup.timers.call_later(
            settings.failure_delay_ms, lambda: None if later.done() else later.set_result(response)
        )
        return later

    def _generic_text(self) -> str:
        """Return Kafka's error text that hides the reason."""
        what = "re-authentication" if self._is_reauthentication else "authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"


def _body(header: RequestHeader, frame: Frame) -> Any:
    if header.version not in VERSIONS[header.api]:
        raise MalformedMessageError(f"{header.api.title} version {header.version} is not supported")
    return read_request(header.api, header.version, memoryview(frame)[header.size :])


def _reply(header: RequestHeader, values: Mapping[str, Any]) -> list[Part]:
    parts = [
        response_header(header.api, header.version, header.correlation_id),
        write_response(header.api, header.version, values),
    ]
    return [length_prefix(parts), *parts]
