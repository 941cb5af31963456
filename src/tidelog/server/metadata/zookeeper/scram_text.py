"""The text of a SCRAM credential among a user's settings::

    salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=8192

The setting's key is the mechanism. Pure. Source: Kafka's ``ScramCredentialUtils``.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode

from tidelog.security.scram_credential import ScramCredential, ScramMechanism

_KEYS = {"salt", "stored_key", "server_key", "iterations"}


def decode_scram(mechanism: ScramMechanism, text: str) -> ScramCredential:
    """Return the credential. Raise ValueError, without a value of the text, if it is not valid."""
    parts = [part.partition("=") for part in text.split(",")]
    values = {key: value for key, _, value in parts}
    if values.keys() != _KEYS or len(parts) != len(_KEYS):
        raise ValueError("it must have salt, stored_key, server_key and iterations")
    iterations = values["iterations"]
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) < 10 and int(iterations)):
        raise ValueError("iterations is not a number above 0")
    return ScramCredential(
        mechanism=mechanism,
        iterations=int(iterations),
        salt=_decoded(values, "salt"),
        stored_key=_decoded(values, "stored_key"),
        server_key=_decoded(values, "server_key"),
    )


def encode_scram(credential: ScramCredential) -> str:
    texts = {
        "salt": b64encode(credential.salt).decode(),
        "stored_key": b64encode(credential.stored_key).decode(),
        "server_key": b64encode(credential.server_key).decode(),
        "iterations": str(credential.iterations),
    }
    return ",".join(f"{key}={value}" for key, value in texts.items())


def _decoded(values: dict[str, str], key: str) -> bytes:
    try:
        found = b64decode(values[key], validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise ValueError(f"{key} is not base64")
    return found
