"""The settings of replication, of this broker as a leader and as a follower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """The defaults are Kafka's."""

    lag_time_max_ms: int = 30_000
    """A follower that was not caught up for this time leaves the in-sync replicas."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 1024 * 1024
    """The bytes that a fetch asks for in each partition."""
    fetch_response_max_bytes: int = 10 * 1024 * 1024
    fetch_wait_max_ms: int = 500
    fetch_backoff_ms: int = 1000
    socket_timeout_ms: int = 30_000
    quota_windows: int = 11
    """The samples of a replication quota, of ``quota_window_ms`` each."""
    quota_window_ms: int = 1000
    transaction_max_timeout_ms: int = 900_000
    """The largest timeout of a transaction. A leader counts partitions whose transactions are open for longer."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        number = config.number
        return cls(
            lag_time_max_ms=number("replica.lag.time.max.ms"),
            fetch_min_bytes=number("replica.fetch.min.bytes"),
            fetch_max_bytes=number("replica.fetch.max.bytes"),
            fetch_response_max_bytes=number("replica.fetch.response.max.bytes"),
            fetch_wait_max_ms=number("replica.fetch.wait.max.ms"),
            fetch_backoff_ms=number("replica.fetch.backoff.ms"),
            socket_timeout_ms=number("replica.socket.timeout.ms"),
            quota_windows=number("replication.quota.window.num"),
            quota_window_ms=number("replication.quota.window.size.seconds") * 1000,
            transaction_max_timeout_ms=number("transaction.max.timeout.ms"),
        )
