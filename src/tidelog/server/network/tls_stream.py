"""TLS around a socket: what the peer sends, decrypted; what it gets, encrypted. Never blocks.

OpenSSL works on memory; what comes and goes on the socket is a matter of this file. What is held is bounded: received
bytes are decrypted before more are taken, and nothing is encrypted before what was is sent.
Called by: TlsConnection, TlsOutput. Thread rule: the loop's.
"""

from __future__ import annotations

import socket
import ssl

from tidelog.protocol.errors import MalformedMessageError

_RECEIVE_BYTES = 64 * 1024
_RECORD_BYTES = 16 * 1024
"""The most of a record of TLS."""


class TlsStream:
    __slots__ = ("_ahead", "_has_ended", "_incoming", "_outgoing", "_socket", "_tls", "_unsent")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = memoryview(b"")
        """Encrypted."""
        self._ahead = b""
        """Decrypted while only the end was looked for."""
        self._has_ended = False

    @property
    def certificate(self) -> bytes | None:
        """The peer's, in DER, once hands are shaken; it was checked."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def has_pending(self) -> bool:
        """Something came that was not handed on: the socket need not say so."""
        return bool(self._ahead) or self._incoming.pending > 0 or self._tls.pending() > 0

    def shake_hands(self) -> bool:
        """Go on; whether it is done. ``flush`` after it. SSLError; OSError, EOFError: the peer is gone."""
        while True:
            try:
                self._tls.do_handshake()
                return True
            except ssl.SSLWantReadError:
                if not self._fill():
                    if self._has_ended:
                        raise EOFError from None
                    return False

    def recv_into(self, buffer: memoryview) -> int:
        """As a socket's, but that MalformedMessageError says where the bytes are no TLS."""
        size = len(buffer)
        have = min(len(self._ahead), size)
        if have:
            buffer[:have] = self._ahead[:have]
            self._ahead = self._ahead[have:]
        while have < size and not self._has_ended:
            try:
                count: int = self._tls.read(size - have, buffer[have:])  # type: ignore[assignment]
            except ssl.SSLWantReadError:
                if not self._fill():
                    break
                continue
            except ssl.SSLError as error:
                raise MalformedMessageError(f"what it sends is not TLS: {reason_of(error)}") from None
            self._has_ended = count == 0
            have += count
        if not have and not self._has_ended:
            raise BlockingIOError
        return have

    def recv(self, size: int, flags: int) -> bytes:
        """Look whether the peer has left, or sent something, which is kept: b"", or not. As with MSG_PEEK."""
        if not self.has_pending and not self._has_ended:
            self._ahead = self._read_ahead()
        return b"" if self._has_ended and not self.has_pending else b"?"

    def write(self, data: bytes | memoryview) -> None:
        """Encrypt; ``flush`` sends it."""
        self._tls.write(data)

    def flush(self) -> None:
        """Send what is encrypted. BlockingIOError: the socket takes no more now; OSError: the peer is gone."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            self._unsent = self._unsent[self._socket.send(self._unsent) :]

    def close(self) -> None:
        """Tell the peer that nothing is missing, if it listens; then close the socket."""
        try:
            if not self._unsent:
                self._tls.unwrap()
        except (OSError, ValueError):  # it waits for the peer's own word, which nobody needs; or was never shaken
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
                if not self._fill():
                    if self._has_ended:
                        return b""
                    raise BlockingIOError from None
                continue
            self._has_ended = not data
            return data

    def _fill(self) -> bool:
        """Take what came from the socket; False where there is nothing, or nothing any more. OSError."""
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
    """For people: what OpenSSL says in capitals and underscores."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return str(error.reason or error).lower().replace("_", " ")
