"""The SCRAM mechanisms there are, by Kafka's names and numbers.

Source: Kafka's ``ScramMechanism``; RFC 5802, RFC 7677.
"""

from __future__ import annotations

import enum
from typing import Final

MINIMUM_ITERATIONS: Final = 4096
"""Of a credential that may be used; also how many there are where nobody says."""
MAXIMUM_ITERATIONS: Final = 16384
"""Of a new credential: each costs the client's time, and the broker's where it is made of a password."""


class ScramMechanism(enum.IntEnum):
    """The number is what requests and the metadata log have."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def title(self) -> str:
        """As clients ask for it: ``SCRAM-SHA-256``."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def digest(self) -> str:
        """The hash function, by hashlib's name."""
        return self.name.replace("_", "").lower()


SCRAM_MECHANISMS: Final = {mechanism.title: mechanism for mechanism in ScramMechanism}
