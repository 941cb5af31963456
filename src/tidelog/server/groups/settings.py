"""The group coordinator's settings: Kafka's ``group.*`` and ``offsets.*`` keys and defaults. Pure.

Consumer groups can override their timeouts (``config.resources.group_settings``): see ``GroupTimeouts``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.settings_keys import SettingsKeys

MS_PER_MINUTE = 60_000

_GROUP_KEYS = SettingsKeys(
    {
        "session_timeout_ms": "group.consumer.session.timeout.ms",
        "heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms",
        "assignment_interval_ms": "group.consumer.assignment.interval.ms",
    }
)
_CONSUMER_KEYS = SettingsKeys(
    {
        "max_size": "group.consumer.max.size",
        "assignors": "group.consumer.assignors",
        "migration_policy": "group.consumer.migration.policy",
        "regex_refresh_interval_ms": "group.consumer.regex.refresh.interval.ms",
    }
)
_KEYS = SettingsKeys(
    {
        "initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
        "min_session_timeout_ms": "group.min.session.timeout.ms",
        "max_session_timeout_ms": "group.max.session.timeout.ms",
        "max_size": "group.max.size",
        "offset_metadata_max_bytes": "offset.metadata.max.bytes",
        "offsets_retention_minutes": "offsets.retention.minutes",
        "retention_check_interval_ms": "offsets.retention.check.interval.ms",
        "commit_timeout_ms": "offsets.commit.timeout.ms",
        "load_buffer_bytes": "offsets.load.buffer.size",
        "codec": "offsets.topic.compression.codec",
        "append_linger_ms": "group.coordinator.append.linger.ms",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTimeouts:
    """The timeouts of the members of one consumer group."""

    session_timeout_ms: int = _GROUP_KEYS.default("session_timeout_ms")
    heartbeat_interval_ms: int = _GROUP_KEYS.default("heartbeat_interval_ms")
    assignment_interval_ms: int = _GROUP_KEYS.default("assignment_interval_ms")
    """The minimum time between two target assignments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    """The settings of consumer groups (KIP-848)."""

    max_size: int = _CONSUMER_KEYS.default("max_size")
    assignors: tuple[str, ...] = _CONSUMER_KEYS.default("assignors")
    """The first assignor is the default."""
    migration_policy: str = _CONSUMER_KEYS.default("migration_policy")
    regex_refresh_interval_ms: int = _CONSUMER_KEYS.default("regex_refresh_interval_ms")

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        return cls(**_CONSUMER_KEYS.read(config))

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
    initial_rebalance_delay_ms: int = _KEYS.default("initial_rebalance_delay_ms")
    min_session_timeout_ms: int = _KEYS.default("min_session_timeout_ms")
    max_session_timeout_ms: int = _KEYS.default("max_session_timeout_ms")
    new_member_join_timeout_ms: int = 300_000
    """The maximum wait of a new member's first join for the other members. Kafka has no key for it."""
    max_size: int = _KEYS.default("max_size")
    offset_metadata_max_bytes: int = _KEYS.default("offset_metadata_max_bytes")
    offsets_retention_minutes: int = _KEYS.default("offsets_retention_minutes")
    retention_check_interval_ms: int = _KEYS.default("retention_check_interval_ms")
    commit_timeout_ms: int = _KEYS.default("commit_timeout_ms")
    """The maximum time for the replication of a written batch."""
    load_buffer_bytes: int = _KEYS.default("load_buffer_bytes")
    codec: int = _KEYS.default("codec")
    """The compression codec of batches written to ``__consumer_offsets``."""
    append_linger_ms: int = _KEYS.default("append_linger_ms")
    """The time for which changes are gathered before they are appended. See ``PartitionJournal``."""

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        """Read the settings from a broker's properties."""
        return cls(consumer=ConsumerGroupSettings.of(config), **_KEYS.read(config))

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * MS_PER_MINUTE
