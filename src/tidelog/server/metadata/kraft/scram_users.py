"""The users of one SCRAM mechanism, as the metadata has them now. Thread rule: the event loop only."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.metadata.broker_metadata import BrokerMetadata

_ENOUGH = 64


class ScramUsers:
    """The credentials in the metadata; implements ``ScramCredentials``."""

    def __init__(self, metadata: BrokerMetadata, mechanism: ScramMechanism, secret: bytes) -> None:
        self.secret = secret
        self._metadata = metadata
        self._mechanism = mechanism

    def of(self, user: str) -> ScramCredential | None:
        return self._users.get(user)

    def some(self) -> Mapping[str, ScramCredential]:
        """Return at most 64 users: enough to find the usual parameters, and fast."""
        return dict(islice(self._users.items(), _ENOUGH))

    @property
    def _users(self) -> dict[str, ScramCredential]:
        return self._metadata.image.scram_credentials.get(self._mechanism, {})
