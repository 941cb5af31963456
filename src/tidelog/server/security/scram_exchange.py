"""SASL SCRAM (RFC 5802, RFC 7677): authentication without sending the password.

::

    client first   n,[a=AUTHZID],n=USER,r=NONCE[,EXTENSIONS]
    server first   r=NONCE+OURS,s=SALT,i=ITERATIONS
    client final   c=BINDING,r=NONCE+OURS[,EXTENSIONS],p=PROOF
    server final   v=SIGNATURE

===========================================  =======================================================================
a client is refused if it                    when, and why
===========================================  =======================================================================
is unknown, or has the wrong password        after its proof, with the same message: ``fake_scram_credentials``
requires channel binding (``p=``) or         at once: no mechanism with it is offered (``y``: as in Kafka)
supports it (``y``)
sends another nonce or channel binding in    after its proof: a replay, or a third party removed the binding
its final message
requests another authorization id            at once
uses a mandatory extension (``m=``)          at once
sends a delegation token (``tokenauth``)     at once: delegation tokens are not supported
===========================================  =======================================================================

Other extensions are ignored. All is pure except the nonce. Source: Kafka's ``ScramSaslServer``, ``ScramMessages``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Final, Protocol

from tidelog.security.scram_credential import MINIMUM_ITERATIONS, ScramCredential, ScramMechanism
from tidelog.server.security.fake_scram_credentials import fake_credential
from tidelog.server.security.sasl_exchange import OTHER_USER, SaslError

_NAME = r"(?:[^=,\0]|=2C|=3D)+"
_NONCE = r"[!-+\--~]+"
"""The printable characters except the comma."""
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<wanted>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<binding>[A-Za-z0-9/+=]*),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>[A-Za-z0-9/+=]+)"
)


class ScramCredentials(Protocol):
    """The credentials of one mechanism's users."""

    secret: bytes
    """A lasting secret of the broker, for ``fake_scram_credentials``."""

    def of(self, user: str) -> ScramCredential | None: ...

    def some(self) -> Mapping[str, ScramCredential]:
        """Return the credentials of some users by name: the same users on each call, while they exist."""
        ...


class _Nobody:
    secret = secrets.token_bytes(32)

    def of(self, user: str) -> None:
        return None

    def some(self) -> Mapping[str, ScramCredential]:
        return {}


NO_CREDENTIALS: Final = _Nobody()
"""Credentials without users."""


class ScramExchange:
    """An exchange and its states: client first -> client final -> complete. An error ends it."""

    def __init__(self, mechanism: ScramMechanism, credentials: ScramCredentials, nonce: str | None = None) -> None:
        """Create the exchange. ``nonce`` is the server's; with None it is random."""
        self._mechanism = mechanism
        self._credentials = credentials
        self._own_nonce = nonce or secrets.token_urlsafe(24)
        self._name = ""
        self._credential: ScramCredential | None = None
        self._is_known = False
        self._nonce = self._binding = self._first_messages = ""
        self._user: str | None = None
        self._is_over = False

    @property
    def user(self) -> str | None:
        return self._user

    def respond(self, token: bytes) -> bytes:
        if self._is_over:
            raise SaslError("a token came after the end of the exchange")
        self._is_over = True
        text = _text(token)
        if self._credential is None:
            answer = self._challenge(text)
            self._is_over = False
        else:
            answer = self._verified(self._credential, text)
            self._user = self._name
        return answer.encode()

    def _challenge(self, text: str) -> str:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslError("its first message is not a SCRAM message without channel binding")
        if match["wanted"] not in (None, match["user"]):
            raise SaslError("it requested another user's authorization id", client_message=OTHER_USER)
        if ",tokenauth=true" in match["extensions"].lower():
            raise SaslError("it sent a delegation token, which is not supported")
        self._name = match["user"].replace("=2C", ",").replace("=3D", "=")
        self._credential = credential = self._found()
        self._binding = base64.b64encode(match["header"].encode()).decode()
        self._nonce = match["nonce"] + self._own_nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._first_messages = f"{match['bare']},{answer}"
        return answer

    def _found(self) -> ScramCredential:
        known = self._credentials.of(self._name)
        substitute = fake_credential(self._mechanism, self._name, self._credentials.some(), self._credentials.secret)
        self._is_known = known is not None and known.iterations >= MINIMUM_ITERATIONS
        return known if known is not None and self._is_known else substitute

    def _verified(self, credential: ScramCredential, text: str) -> str:
        """Return the final message if the client's proof is right. Raise SaslError if it is not."""
        match = _FINAL.fullmatch(text)
        if match is None:
            raise SaslError("its final message is not a SCRAM message")
        messages = f"{self._first_messages},{match['unproved']}".encode()
        digest = self._mechanism.digest
        signature = hmac.digest(credential.stored_key, messages, digest)
        proof = _decoded(match["proof"])
        if len(proof) != len(signature):
            raise SaslError("its proof has the wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise SaslError("its final message has another nonce: a replay")
        if match["binding"] != self._binding:
            raise SaslError("its final message has another channel binding than its first")
        if not (is_right and self._is_known):
            raise SaslError("a wrong name or password")
        return f"v={base64.b64encode(hmac.digest(credential.server_key, messages, digest)).decode()}"


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise SaslError("its message is not text") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise SaslError("its proof is not base64") from None
