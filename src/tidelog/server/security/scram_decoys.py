"""Credentials for users there are not: nobody can tell from the exchange that there are none.

A name gets the same salt each time, for as long as the process lives, made as the salts of Kafka's clients and ours
are, and the iterations of some user there is. Its keys fit no password.
Called by: ScramExchange. Thread rule: any. Source: RFC 5802, section 5.1, which leaves it to the server; Kafka tells.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence

from tidelog.server.security.scram_credential import ScramCredential, salt_of
from tidelog.server.security.scram_mechanism import MINIMUM_ITERATIONS, ScramMechanism

_SECRET = secrets.token_bytes(32)


def decoy(mechanism: ScramMechanism, user: str, iterations: Sequence[int], secret: bytes = _SECRET) -> ScramCredential:
    """``iterations``: of the users there are, each as often as it occurs."""
    seed = hmac.digest(secret, f"{mechanism.title} {user}".encode(), "sha512")
    choice = int.from_bytes(seed[:8])
    return ScramCredential(
        mechanism=mechanism,
        iterations=iterations[choice % len(iterations)] if iterations else MINIMUM_ITERATIONS,
        salt=salt_of(int.from_bytes(seed[8:32])),
        stored_key=hmac.digest(secret, b"stored" + seed, mechanism.digest),
        server_key=hmac.digest(secret, b"server" + seed, mechanism.digest),
    )
