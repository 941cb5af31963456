"""A TLS stream over a socket: it decrypts received bytes and encrypts sent bytes. It never blocks.

OpenSSL works on memory buffers, and this module moves bytes between them and the socket. The memory is bounded:
received bytes are decrypted before more are read, and nothing is encrypted before the earlier bytes are sent.
Thread rule: the event loop only.
"""

from __future__ import annotations

import socket
import ssl

from tidelog.protocol.errors import MalformedMessageError

_RECEIVE_BYTES = 64 * 1024
_RECORD_BYTES = 16 * 1024
"""The largest TLS record."""


class TlsStream:
    __slots__ = ("_has_ended", "_incoming", "_outgoing", "_peeked", "_socket", "_tls", "_unsent")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = memoryview(b"")
        """Encrypted bytes that are not sent yet."""
        self._peeked = b""
        """Decrypted bytes that ``recv`` found while it looked for the end."""
        self._has_ended = False

    @property
    def certificate(self) -> bytes | None:
        """The client's verified certificate in DER, after the handshake."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def has_pending(self) -> bool:
        """True if received bytes were not returned yet; the socket does not report those."""
        return bool(self._peeked) or self._incoming.pending > 0 or self._tls.pending() > 0

    def do_handshake(self) -> bool:
        """Continue the handshake and return True if it is done. Call ``flush`` after it. Raise SSLError if the
        handshake fails, and OSError or EOFError if the client has closed the connection."""
        while True:
            try:
                self._tls.do_handshake()
                return True
            except ssl.SSLWantReadError:
                if not self._receive():
                    if self._has_ended:
                        raise EOFError from None
                    return False

    def recv_into(self, buffer: memoryview) -> int:
        """Receive as a socket does. Raise MalformedMessageError if the bytes are not TLS."""
        size = len(buffer)
        have = min(len(self._peeked), size)
        if have:
            buffer[:have] = self._peeked[:have]
            self._peeked = self._peeked[have:]
        while have < size and not self._has_ended:
            try:
                count: int = self._tls.read(size - have, buffer[have:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                if not self._receive():
                    break
                continue
            except ssl.SSLError as error:
                raise MalformedMessageError(f"the received bytes are not valid TLS: {reason_of(error)}") from None
            self._has_ended = count == 0
            have += count
        if not have and not self._has_ended:
            raise BlockingIOError
        return have

    def recv(self, size: int, flags: int) -> bytes:
        """Look at the next byte, as with MSG_PEEK. Raise BlockingIOError if there is none. Return b"" if the client has
        closed the connection, and otherwise a placeholder for the byte, which is kept."""
        if not self.has_pending and not self._has_ended:
            self._peeked = self._read_ahead()
        return b"" if self._has_ended and not self.has_pending else b"?"

    def write(self, data: bytes | memoryview) -> None:
        """Encrypt ``data``. ``flush`` sends it."""
        self._tls.write(data)

    def flush(self) -> None:
        """Send the encrypted bytes. Raise BlockingIOError if the socket is full, and OSError if the client has closed
        the connection."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        """Send TLS's close_notify if possible, so that the client knows that no bytes are missing. Then close the
        socket."""
        try:
            if not self._unsent:
                self._tls.unwrap()
        except (OSError, ValueError):  # no close_notify from the client yet, which is not needed; or no handshake
            pass
        try:
            self.flush()
        except OSError:
            pass
        self._socket.close()

    def _read_ahead(self) -> bytes:
        while True:
            try:
                data = self._tls.read(_RECORD_BYTES)
            except ssl.SSLWantReadError:
                if not self._receive():
                    if self._has_ended:
                        return b""
                    raise BlockingIOError from None
                continue
            self._has_ended = not data
            return data

    def _receive(self) -> bool:
        """Read from the socket. Return False if there are no bytes, or if the client has closed the connection. Raise
        OSError if the socket fails."""
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._has_ended = True
            return False
        self._incoming.write(data)
        return True


def reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason as readable text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not valid: {error.verify_message}"
    return str(error.reason or error).lower().replace("_", " ")
