"""The set-up of a connection: addresses of the name, TCP, TLS, ApiVersions, SASL.

::

    resolve -> for each address: TCP -> TLS -> ApiVersions -> SASL -> open

``connection.setup.timeout.ms`` covers all steps for one address; the next address of the name is tried after a failure.
A broker may not know the version of the first ApiVersions request. It responds with UNSUPPORTED_VERSION and its own
versions, in the format of version 0. The request is then repeated in the highest common version (KIP-511).
Source: Kafka's ``NetworkClient``, ``ClientUtils.resolve``; KIP-601, KIP-602.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
from typing import Any, Final

from tidelog.client.connection.api_versions import ApiVersions, ranges_of
from tidelog.client.connection.client_settings import ClientSettings
from tidelog.client.connection.connection import Connection, tls_reason
from tidelog.client.connection.stream import Stream
from tidelog.client.model.address import Address
from tidelog.client.model.errors import AuthenticationError, ClientError, DisconnectedError, UnsupportedVersionError
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode, error_text
from tidelog.protocol.messages import read_response
from tidelog.version import __version__

_SOFTWARE: Final = {"client_software_name": "tidelog", "client_software_version": __version__.replace("+", "-")}


async def open_connection(
    address: Address, settings: ClientSettings, *, node_id: int | None = None, setup_timeout_ms: int | None = None
) -> Connection:
    """Return a connection that is ready for requests.

    ``node_id`` is for messages. Raise DisconnectedError if no address of the name can be reached in time, or
    AuthenticationError or UnsupportedVersionError.
    """
    broker = f"server {address}" if node_id is None else f"broker {node_id} at {address}"
    timeout_ms = settings.connection_setup_timeout_ms if setup_timeout_ms is None else setup_timeout_ms
    failures = []
    for family, sockaddr in await _resolved(address, broker):
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await _opened(family, sockaddr, address, settings, broker)
        except TimeoutError:
            failures.append(f"{sockaddr[0]} was not ready within {timeout_ms} ms")
        except OSError as error:
            failures.append(f"{sockaddr[0]}: {_reason(error)}")
        except DisconnectedError as error:
            failures.append(f"{sockaddr[0]}: {error.message}")
    raise DisconnectedError(f"cannot connect to {broker}: {'; '.join(failures)}")


def _reason(error: OSError) -> str:
    """Return the operating system's words for a failed connection, since asyncio's are those of a call."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()
    return str(error) or "the connection was closed"


async def _resolved(address: Address, broker: str) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the addresses of a name in random order, so that clients spread over them."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DisconnectedError(f"cannot connect to {broker}: the name is unknown ({error.strerror})") from None
    addresses: list[tuple[int, tuple[Any, ...]]] = list(dict.fromkeys((int(one[0]), one[4]) for one in found))
    random.shuffle(addresses)
    return addresses


async def _opened(
    family: int, sockaddr: tuple[Any, ...], address: Address, settings: ClientSettings, broker: str
) -> Connection:
    stream = await _stream(family, sockaddr, address, settings, broker)
    connection = Connection(stream, broker, settings)
    try:
        connection.versions = await _api_versions(connection)
        await connection.authenticate()
    except BaseException as error:
        connection.close(error if isinstance(error, ClientError) else None)
        raise
    return connection


async def _stream(
    family: int, sockaddr: tuple[Any, ...], address: Address, settings: ClientSettings, broker: str
) -> Stream:
    loop, tls = asyncio.get_running_loop(), settings.security.tls
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _set_buffer(sock, socket.SO_SNDBUF, settings.send_buffer_bytes)
        _set_buffer(sock, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        await loop.sock_connect(sock, sockaddr)
        host = address.host if tls is not None else None
        _, stream = await loop.create_connection(
            lambda: Stream(settings.max_response_bytes), sock=sock, ssl=tls, server_hostname=host
        )
    except ssl.SSLCertVerificationError as error:
        raise AuthenticationError(
            f"the certificate of {broker} is refused: {error.verify_message}; check ssl.truststore.location, and the "
            "certificate's names (ssl.endpoint.identification.algorithm)"
        ) from None
    except (ssl.SSLEOFError, ConnectionError) as error:
        sock.close()
        if tls is None or isinstance(error, ConnectionRefusedError):
            raise
        text = "the connection was closed during the TLS handshake; is it a port with TLS (security.protocol)?"
        raise DisconnectedError(text) from None
    except ssl.SSLError as error:
        raise AuthenticationError(_tls_text(broker, error)) from None
    except BaseException:
        sock.close()
        raise
    return stream


def _tls_text(broker: str, error: ssl.SSLError) -> str:
    reason = tls_reason(error)
    hint = "; is it a port without TLS?" if reason in ("wrong version number", "record layer failure") else ""
    return f"the TLS handshake with {broker} failed: {reason}{hint}"


async def _api_versions(connection: Connection) -> ApiVersions:
    """Ask for the broker's versions, from the latest version of the request downwards."""
    version = VERSIONS[ApiKey.API_VERSIONS].latest
    response = await connection.send_version(ApiKey.API_VERSIONS, version, _SOFTWARE, decode=_read_versions)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        _oldest, latest = ranges_of(response.api_keys).get(ApiKey.API_VERSIONS, (0, 0))
        version = min(version - 1, latest)
        response = await connection.send_version(ApiKey.API_VERSIONS, version, _SOFTWARE, decode=_read_versions)
    if response.error_code != ErrorCode.NONE:
        raise UnsupportedVersionError(
            f"{connection.broker} does not report its versions: ApiVersions version {version} fails with "
            f"{error_text(response.error_code)}"
        )
    return ApiVersions.of_response(connection.broker, response)


def _read_versions(version: int, body: memoryview) -> Any:
    """Decode a response. One with UNSUPPORTED_VERSION has the format of version 0 in every version."""
    is_refusal = bytes(body[:2]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2)
    return read_response(ApiKey.API_VERSIONS, 0 if is_refusal else version, body)


def _set_buffer(sock: socket.socket, option: int, size: int) -> None:
    if size >= 0:
        sock.setsockopt(socket.SOL_SOCKET, option, size)
