"""Kafka's security protocols. Source: Kafka's ``SecurityProtocol``."""

from __future__ import annotations

import enum


class SecurityProtocol(enum.IntEnum):
    """The protocols. The numbers are Kafka's and are part of a broker's registration."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
