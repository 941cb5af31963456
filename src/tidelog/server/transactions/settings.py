"""The transaction coordinator's settings: Kafka's ``transaction.*`` keys and defaults. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.settings_keys import from_key, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = from_key("transaction.max.timeout.ms")
    id_expiration_ms: int = from_key("transactional.id.expiration.ms")
    abort_interval_ms: int = from_key("transaction.abort.timed.out.transaction.cleanup.interval.ms")
    """The interval of the search for timed-out transactions."""
    removal_interval_ms: int = from_key("transaction.remove.expired.transaction.cleanup.interval.ms")
    """The interval of the search for expired transactional ids."""
    load_buffer_bytes: int = from_key("transaction.state.log.load.buffer.size")
    append_timeout_ms: int = from_key("request.timeout.ms")
    """The maximum time for the replication of a state record."""
    add_retry_ms: int = from_key("add.partitions.to.txn.retry.backoff.ms")
    """The pause before a broker tries again to add a partition for a producer."""
    add_retry_max_ms: int = from_key("add.partitions.to.txn.retry.backoff.max.ms")
    """The maximum total time of these retries."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        return cls(**read_settings(cls, config))
