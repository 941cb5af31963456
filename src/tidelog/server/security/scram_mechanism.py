"""The SCRAM mechanisms with Kafka's names and numbers.

Source: Kafka's ``ScramMechanism``; RFC 5802, RFC 7677.
"""

from __future__ import annotations

import enum
from typing import Final

MINIMUM_ITERATIONS: Final = 4096
"""The minimum of a usable credential, and the default of a new one."""
MAXIMUM_ITERATIONS: Final = 16384
"""The maximum of a new credential, because each iteration takes time of the client or of the broker."""


class ScramMechanism(enum.IntEnum):
    """The mechanisms. The numbers are those of requests and of the metadata log."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def title(self) -> str:
        """The name that clients use: ``SCRAM-SHA-256``."""
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def digest(self) -> str:
        """The hash function's name in hashlib."""
        return self.name.replace("_", "").lower()


SCRAM_MECHANISMS: Final = {mechanism.title: mechanism for mechanism in ScramMechanism}
