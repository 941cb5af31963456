"""The group coordinator's settings: Kafka's ``group.*`` and ``offsets.*`` keys and defaults. Pure.

Consumer groups can override their timeouts (``config.resources.group_settings``): see ``GroupTimeouts``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.settings_keys import from_key, read_settings

MS_PER_MINUTE = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeouts:
    """The timeouts of the members of one consumer group."""

    session_timeout_ms: int = from_key("group.consumer.session.timeout.ms")
    heartbeat_interval_ms: int = from_key("group.consumer.heartbeat.interval.ms")
    assignment_interval_ms: int = from_key("group.consumer.assignment.interval.ms")
    """The minimum time between two target assignments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """The settings of consumer groups (KIP-848)."""

    max_size: int = from_key("group.consumer.max.size")
    assignors: tuple[str, ...] = from_key("group.consumer.assignors")
    """The first assignor is the default."""
    migration_policy: str = from_key("group.consumer.migration.policy")
    regex_refresh_interval_ms: int = from_key("group.consumer.regex.refresh.interval.ms")

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        return cls(**read_settings(cls, config))

    @property
    def may_upgrade(self) -> bool:
        """True if a classic group with members may become a consumer group."""
        return self.migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def may_downgrade(self) -> bool:
        """True if a consumer group becomes a classic group when its last member of the new protocol leaves."""
        return self.migration_policy.lower() in ("downgrade", "bidirectional")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The settings of classic groups, of offsets and of their topic."""

    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)
    initial_rebalance_delay_ms: int = from_key("group.initial.rebalance.delay.ms")
    min_session_timeout_ms: int = from_key("group.min.session.timeout.ms")
    max_session_timeout_ms: int = from_key("group.max.session.timeout.ms")
    new_member_join_timeout_ms: int = 300_000
    """The maximum wait of a new member's first join for the other members. Kafka has no key for it."""
    max_size: int = from_key("group.max.size")
    offset_metadata_max_bytes: int = from_key("offset.metadata.max.bytes")
    offsets_retention_minutes: int = from_key("offsets.retention.minutes")
    retention_check_interval_ms: int = from_key("offsets.retention.check.interval.ms")
    commit_timeout_ms: int = from_key("offsets.commit.timeout.ms")
    """The maximum time for the replication of a written batch."""
    load_buffer_bytes: int = from_key("offsets.load.buffer.size")
    codec: int = from_key("offsets.topic.compression.codec")
    """The compression codec of batches written to ``__consumer_offsets``."""
    append_linger_ms: int = from_key("group.coordinator.append.linger.ms")
    """The time for which changes are gathered before they are appended. See ``PartitionJournal``."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        return cls(consumer=ConsumerGroupSettings.of(config), **read_settings(cls, config))

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * MS_PER_MINUTE
