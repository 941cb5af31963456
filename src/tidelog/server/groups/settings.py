"""What the group coordinator goes by: Kafka's ``group.*`` and ``offsets.*`` keys as fields. Pure.

Consumer groups can have time-outs of their own (``config.resources.group_settings``): ``GroupTimeouts``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidelog.config.broker_config import BrokerConfig

MS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeouts:
    """Of the members of one consumer group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """Consumer groups (KIP-848)."""

    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is the default."""
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group in use may become a consumer group."""
        return self.migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group whose last member of the new protocol left becomes a classic group."""
        return self.migration_policy.lower() in ("downgrade", "bidirectional")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """Classic groups, offsets and the topic they are kept in."""

    consumer: ConsumerGroupSettings = ConsumerGroupSettings()
    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    new_member_join_timeout_ms: int = 300_000
    """Kafka has no key for it: how long a new member's first join may wait for the others."""
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    offsets_retention_ms: int = 10_080 * MS_PER_MINUTE
    retention_check_interval_ms: int = 600_000
    commit_timeout_ms: int = 5000
    """How long the replicas may take with what is written."""
    load_buffer_bytes: int = 5_242_880
    codec: int = 0
    """Of the batches written to ``__consumer_offsets``."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """The settings of a broker."""
        number = config.number
        return cls(
            consumer=_consumer_settings(config),
            initial_rebalance_delay_ms=number("group.initial.rebalance.delay.ms"),
            min_session_timeout_ms=number("group.min.session.timeout.ms"),
            max_session_timeout_ms=number("group.max.session.timeout.ms"),
            max_size=number("group.max.size"),
            offset_metadata_max_bytes=number("offset.metadata.max.bytes"),
            offsets_retention_ms=number("offsets.retention.minutes") * MS_PER_MINUTE,
            retention_check_interval_ms=number("offsets.retention.check.interval.ms"),
            commit_timeout_ms=number("offsets.commit.timeout.ms"),
            load_buffer_bytes=number("offsets.load.buffer.size"),
            codec=number("offsets.topic.compression.codec"),
        )


def _consumer_settings(config: BrokerConfig) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        max_size=config.number("group.consumer.max.size"),
        assignors=config.texts("group.consumer.assignors"),
        migration_policy=str(config["group.consumer.migration.policy"]),
        regex_refresh_interval_ms=config.number("group.consumer.regex.refresh.interval.ms"),
    )
