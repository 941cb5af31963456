"""What the transaction coordinator goes by: Kafka's ``transaction.*`` keys as fields, with its defaults. Pure."""

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
    """How often timed-out transactions are looked for."""
    removal_interval_ms: int = _KEYS.default("removal_interval_ms")
    """How often expired transactional ids are looked for."""
    load_buffer_bytes: int = _KEYS.default("load_buffer_bytes")
    append_timeout_ms: int = _KEYS.default("append_timeout_ms")
    """How long a record of the state may take until it is replicated."""
    add_retry_ms: int = _KEYS.default("add_retry_ms")
    """How long a broker waits before it tries again to add a partition for a producer."""
    add_retry_max_ms: int = _KEYS.default("add_retry_max_ms")
    """How long it goes on."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """As a broker's properties say."""
        return cls(**_KEYS.read(config))
