"""The settings of a copy: its node, the release of its metadata, and the config that its logs follow.

The config is that of a broker on one log directory, with Kafka's defaults. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.config.broker_config import BrokerConfig
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.server.metadata.kraft.bootstrap_records import bootstrap_records, feature_levels
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.start_settings import complete_settings
from tidelog.server.topics.internal_topics import automatic_topic

DEFAULT_NODE_ID: Final = 1
_HIGH_WATERMARK_INTERVAL: Final = "1000"
"""Readers of a directory in use see records up to the checkpointed high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    path: Path
    node_id: int
    config: BrokerConfig
    first_records: Sequence[MetadataRecord]
    """The features of the copy's metadata."""

    @classmethod
    def of(cls, path: Path, *, node_id: int = DEFAULT_NODE_ID, release: str | None = None) -> TargetSettings:
        """Return the settings. ``release`` is an older Kafka release that must open the copy, such as 4.0.

        Raise ConfigError for an unknown release.
        """
        settings = {
            "node.id": str(node_id),
            "log.dirs": str(path),
            "replica.high.watermark.checkpoint.interval.ms": _HIGH_WATERMARK_INTERVAL,
        }
        levels = feature_levels(release, {}, voters_in_log=True)
        return cls(
            path=path,
            node_id=node_id,
            config=BrokerConfig.load(overrides=complete_settings(settings)),
            first_records=bootstrap_records(levels),
        )

    def unread_settings(self, topic: str) -> Mapping[str, str]:
        """Return the settings of a new topic whose settings cannot be read at the source.

        It keeps all of its records until an operator changes that. An internal topic has a broker's settings.
        """
        if topic in INTERNAL_TOPICS:
            configs = automatic_topic(topic, self.config).configs
            return {key: value for key, value in configs.items() if value is not None}
        return {"retention.ms": "-1"}
