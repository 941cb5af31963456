"""The client's side of SASL SCRAM (RFC 5802, RFC 7677). It is pure except for the nonce.

::

    client first   n,,n=USER,r=NONCE
    server first   r=NONCE+THEIRS,s=SALT,i=ITERATIONS
    client final   c=biws,r=NONCE+THEIRS,p=PROOF
    server final   v=SIGNATURE                        or e=REASON

The signature proves that the server knows the password's credential. A server is refused if it

* continues another nonce than the client's, which would be a replay
* wants fewer than 4096 iterations, which would make the proof easy to guess from, or more than a million
* sends another signature, or none

Source: Kafka's ``ScramSaslClient``, ``ScramMessages``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import Final

from tidelog.client.model.errors import AuthenticationError
from tidelog.security.scram_credential import MINIMUM_ITERATIONS, ScramCredential, ScramMechanism, salted_password

_HEADER: Final = "n,,"
_MOST_ITERATIONS: Final = 1_000_000
_FIRST = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9/+=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?", re.DOTALL
)
_FINAL = re.compile(r"(?:e=(?P<error>[^,]*)|v=(?P<signature>[A-Za-z0-9/+=]+))(?:,.*)?", re.DOTALL)


class ScramClient:
    """An exchange: ``first``, then ``final`` with the server's first message, then ``verify`` with its last."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str | None = None) -> None:
        """Create the exchange. With ``nonce`` None it is random."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        return (_HEADER + self._bare).encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the message with the proof. It takes milliseconds. Raise AuthenticationError."""
        text = _text(server_first)
        match = _FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationError("its first SCRAM message cannot be read")
        nonce, iterations = match["nonce"], int(match["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationError("its SCRAM nonce does not continue the client's: it may be a replay")
        if not MINIMUM_ITERATIONS <= iterations <= _MOST_ITERATIONS:
            raise AuthenticationError(
                f"it wants {iterations} SCRAM iterations; {MINIMUM_ITERATIONS} to {_MOST_ITERATIONS} are accepted"
            )
        salt = _decoded(match["salt"])
        salted = salted_password(self._mechanism, self._password, iterations=iterations, salt=salt)
        credential = ScramCredential.of_salted_password(self._mechanism, salted, iterations=iterations, salt=salt)
        unproved = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        messages = f"{self._bare},{text},{unproved}".encode()
        digest = self._mechanism.digest
        client_key = hmac.digest(salted, b"Client Key", digest)
        assert hashlib.new(digest, client_key).digest() == credential.stored_key
        mask = hmac.digest(credential.stored_key, messages, digest)
        proof = bytes(one ^ other for one, other in zip(client_key, mask, strict=True))
        self._signature = hmac.digest(credential.server_key, messages, digest)
        return f"{unproved},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raise AuthenticationError if the server does not prove that it knows the password's credential."""
        match = _FINAL.fullmatch(_text(server_final))
        if match is None:
            raise AuthenticationError("its final SCRAM message cannot be read")
        if match["error"] is not None:
            raise AuthenticationError(f"it refuses the password: {match['error'][:100]}")
        if not hmac.compare_digest(_decoded(match["signature"]), self._signature):
            raise AuthenticationError(
                "its SCRAM signature is wrong: it does not know the password, so it may be an impostor"
            )


def _text(message: bytes) -> str:
    try:
        return bytes(message).decode()
    except UnicodeDecodeError:
        raise AuthenticationError("its SCRAM message is not text") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationError("its SCRAM message is not base64") from None
