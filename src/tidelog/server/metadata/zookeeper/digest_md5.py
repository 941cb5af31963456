"""The client's side of SASL with DIGEST-MD5, the mechanism of ZooKeeper's users. Pure.

::

    server    realm="zk-sasl-md5",nonce="…",charset=utf-8,algorithm=md5-sess
    client    username="kafka",realm=…,nonce=…,cnonce=…,nc=00000001,qop=auth,digest-uri=…,response=…
    server    rspauth=…

``response`` proves that the client knows the password, and ``rspauth`` that the server does. Only TLS protects
the requests that follow. Source: RFC 2831; Java's ``DigestMD5Client`` for the encodings.
"""

from __future__ import annotations

import re
from hashlib import md5
from hmac import compare_digest
from typing import Final

from tidelog.server.metadata.zookeeper.settings import DigestLogin

ZOOKEEPER: Final = "zookeeper/zk-sasl-md5"
"""The service that every ZooKeeper server has, regardless of its host."""
_FIELD: Final = re.compile(r'([a-zA-Z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,\s]*))\s*(?:,\s*)*', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_COUNT: Final = "00000001"
_PROTECTION: Final = "auth"


class DigestMd5:
    """A single authentication. ``client_nonce`` must be random."""

    def __init__(self, login: DigestLogin, client_nonce: str, service: str = ZOOKEEPER) -> None:
        self._login = login
        self._client_nonce = client_nonce
        self._service = service
        self._expected = ""

    def respond(self, challenge: bytes) -> bytes:
        """Return the client's message. Raise ValueError if the server does not offer this mechanism."""
        fields = _fields(challenge)
        if "nonce" not in fields or _PROTECTION not in fields.get("qop", _PROTECTION).split(","):
            raise ValueError("the server offers no authentication with DIGEST-MD5")
        realm, nonce = fields.get("realm", ""), fields["nonce"]
        secret = self._secret(realm, nonce)
        self._expected = self._proof(secret, nonce, f":{self._service}")
        parts = {
            "charset": "utf-8",
            "username": _quoted(self._login.username),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "nc": _COUNT,
            "cnonce": _quoted(self._client_nonce),
            "digest-uri": _quoted(self._service),
            "response": self._proof(secret, nonce, f"AUTHENTICATE:{self._service}"),
            "qop": _PROTECTION,
        }
        return ",".join(f"{name}={value}" for name, value in parts.items()).encode()

    def check(self, message: bytes) -> None:
        """Raise ValueError unless the server knows the password."""
        proof = _fields(message).get("rspauth", "")
        if not self._expected or not compare_digest(proof.encode(), self._expected.encode()):
            raise ValueError("the server does not know the password")

    def _secret(self, realm: str, nonce: str) -> str:
        user = b":".join(map(_encoded, (self._login.username, realm, self._login.password)))
        return _hex(md5(user).digest() + f":{nonce}:{self._client_nonce}".encode())

    def _proof(self, secret: str, nonce: str, request: str) -> str:
        parts = (secret, nonce, _COUNT, self._client_nonce, _PROTECTION, _hex(request.encode()))
        return _hex(":".join(parts).encode())


def _fields(message: bytes) -> dict[str, str]:
    """Return the fields of a message. Raise ValueError if it is not UTF-8."""
    found = _FIELD.findall(message.decode())
    return {name.lower(): _ESCAPED.sub(r"\1", quoted) or plain for name, quoted, plain in found}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _encoded(text: str) -> bytes:
    """Return Latin-1 if it has all characters, else UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _hex(data: bytes) -> str:
    return md5(data).hexdigest()
