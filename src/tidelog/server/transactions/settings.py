"""The transaction coordinator's settings: Kafka's ``transaction.*`` keys and defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.settings_keys import SettingsKeys

_KEYS = SettingsKeys(
    {
        "max_timeout_ms": "transaction.max.timeout.ms",
        "id_expiration_ms": "transactional.id.expiration.ms",
        "abort_interval_ms": "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "removal_interval_ms": "transaction.remove.expired.transaction.cleanup.interval.ms",
        "load_buffer_bytes": "transaction.state.log.load.buffer.size",
        "append_timeout_ms": "request.timeout.ms",
        "add_retry_ms": "add.partitions.to.txn.retry.backoff.ms",
        "add_retry_max_ms": "add.partitions.to.txn.retry.backoff.max.ms",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = _KEYS.default("max_timeout_ms")
    id_expiration_ms: int = _KEYS.default("id_expiration_ms")
    abort_interval_ms: int = _KEYS.default("abort_interval_ms")
    """The interval of the search for timed-out transactions."""
    removal_interval_ms: int = _KEYS.default("removal_interval_ms")
    """The interval of the search for expired transactional ids."""
    load_buffer_bytes: int = _KEYS.default("load_buffer_bytes")
    append_timeout_ms: int = _KEYS.default("append_timeout_ms")
    """The maximum time for the replication of a state record."""
    add_retry_ms: int = _KEYS.default("add_retry_ms")
    """The pause before a broker tries again to add a partition for a producer."""
    add_retry_max_ms: int = _KEYS.default("add_retry_max_ms")
    """The maximum total time of these retries."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        return cls(**_KEYS.read(config))
