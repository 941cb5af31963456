"""``--add-scram`` of ``tidelog format``: a user and a SCRAM credential, as ``kafka-storage`` takes it.

The syntax is ``MECHANISM=[name=…,password=…]``, or ``[name=…,salt=…,saltedpassword=…]`` for a password that is already
salted (both base64). ``iterations`` is optional, and so is ``salt`` with a password. Values may have double quotes.
Error messages omit the text, because it contains a password. Source: Kafka's ``ScramParser``.
"""

from __future__ import annotations

import base64
import binascii
import re

from tidelog.model import ConfigError
from tidelog.security.scram_credential import (
    MAXIMUM_ITERATIONS,
    MINIMUM_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    random_salt,
    salted_password,
)
from tidelog.server.metadata.metadata_record import MetadataRecord

_CREDENTIAL = re.compile(r"(?P<mechanism>[^=\[]+)=\[(?P<parts>.*)\]", re.DOTALL)
_KEYS = frozenset({"name", "password", "saltedpassword", "salt", "iterations"})


def scram_credential(text: str) -> MetadataRecord:
    """Return the user's metadata record. Raise ConfigError, without the text, if a part is missing or invalid."""
    match = _CREDENTIAL.fullmatch(text.strip())
    if match is None:
        raise _mistake("it is not MECHANISM=[name=…,password=…]")
    mechanism = SCRAM_MECHANISMS.get(match["mechanism"])
    if mechanism is None:
        raise _mistake(f"the mechanism {match['mechanism']} is not one of {', '.join(SCRAM_MECHANISMS)}")
    parts = _parts(match["parts"])
    if not parts.get("name"):
        raise _mistake("name is missing")
    return MetadataRecord("UserScramCredentialRecord", _credential(mechanism, parts).fields(parts["name"]))


def _credential(mechanism: ScramMechanism, parts: dict[str, str]) -> ScramCredential:
    iterations = _iterations(parts.get("iterations"), mechanism)
    salt = _decoded(parts, "salt")
    password = parts.get("password")
    if password is None:
        salted = _decoded(parts, "saltedpassword")
        if salted is None:
            raise _mistake("it has neither password nor saltedpassword")
        if salt is None:
            raise _mistake("saltedpassword also needs salt")
    else:
        salt = random_salt() if salt is None else salt
        salted = salted_password(mechanism, password, iterations=iterations, salt=salt)
    return ScramCredential.of_salted_password(mechanism, salted, iterations=iterations, salt=salt)


def _parts(text: str) -> dict[str, str]:
    parts = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS:
            raise _mistake(f"each part must be one of {', '.join(sorted(_KEYS))}, an equals sign and a value")
        quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        parts[key] = value[1:-1] if quoted else value
    return parts


def _iterations(text: str | None, mechanism: ScramMechanism) -> int:
    if text is None:
        return MINIMUM_ITERATIONS
    if not text.isdecimal() or not MINIMUM_ITERATIONS <= int(text) <= MAXIMUM_ITERATIONS:
        raise _mistake(
            f"iterations must be a number from {MINIMUM_ITERATIONS} to {MAXIMUM_ITERATIONS} for {mechanism.title}"
        )
    return int(text)


def _decoded(parts: dict[str, str], key: str) -> bytes | None:
    if key not in parts:
        return None
    try:
        return base64.b64decode(parts[key], validate=True)
    except binascii.Error:
        raise _mistake(f"{key} is not base64") from None


def _mistake(what: str) -> ConfigError:
    return ConfigError(f"--add-scram: {what}")
