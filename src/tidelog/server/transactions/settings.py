"""What the transaction coordinator goes by: Kafka's ``transaction.*`` keys as fields. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    """How often timed-out transactions are looked for."""
    removal_interval_ms: int = 3_600_000
    """How often expired transactional ids are looked for."""
    load_buffer_bytes: int = 5_242_880
    partitions: int = 50
    """Of ``__transaction_state``, until it exists."""
    append_timeout_ms: int = 30_000
    """How long a record of the state may take until it is replicated."""
    add_retry_ms: int = 20
    """How long a broker waits before it tries again to add a partition for a producer."""
    add_retry_max_ms: int = 100
    """How long it goes on."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """The settings of a broker."""
        number = config.number
        return cls(
            max_timeout_ms=number("transaction.max.timeout.ms"),
            id_expiration_ms=number("transactional.id.expiration.ms"),
            abort_interval_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            removal_interval_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            load_buffer_bytes=number("transaction.state.log.load.buffer.size"),
            partitions=number("transaction.state.log.num.partitions"),
            append_timeout_ms=number("request.timeout.ms"),
            add_retry_ms=number("add.partitions.to.txn.retry.backoff.ms"),
            add_retry_max_ms=number("add.partitions.to.txn.retry.backoff.max.ms"),
        )
