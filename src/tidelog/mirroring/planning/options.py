"""The options of a mirror: the source, the copy, and the limits of a run. Immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidelog.client.connection.client_settings import ClientSettings
from tidelog.config.client_config import ClientConfig
from tidelog.mirroring.target.target_settings import DEFAULT_NODE_ID

_CLIENT_ID: Final = "tidelog-mirror"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    directory: Path
    source: ClientSettings
    topics: str = ".*"
    """A regular expression that must match a topic's complete name."""
    with_coordinators: bool = True
    """Copy the committed offsets of groups and the state of transactions too."""
    follows: bool = False
    """Go on until the run is stopped, instead of up to the high watermarks seen at the start."""
    deletes_old: bool = False
    """Delete the copy of a topic that the source has deleted, instead of keeping it."""
    max_rate: int | None = None
    """The most bytes a second, None for no limit."""
    min_free: int = 0
    """The bytes that stay free on the disk of the copy."""
    accepts_loss: bool = False
    """Follow a source that has less data than the copy."""
    accepts_cluster: bool = False
    """Go on with another source cluster than before."""
    node_id: int = DEFAULT_NODE_ID
    """The id of the broker that will serve the copy."""
    release: str | None = None
    """An older Kafka release that must open the copy, such as 4.0."""
    fetchers: int = 2
    """The connections to each leader that fetch at the same time."""
    fetch_max_bytes: int = 16 * 1024 * 1024
    """The records of one response. Larger ones take memory that the C library does not keep for the next response."""
    fetch_max_wait_ms: int = 500
    metadata_interval_ms: int = 5_000
    """The time between two looks at the source's topics, when following."""
    settings_interval_ms: int = 60_000
    """The time between two looks at the source's settings and ACLs, when following."""
    retry_backoff_ms: int = 500
    leader_timeout_ms: int = 60_000
    """The time that a run without ``follows`` waits for a partition without a leader."""


def source_settings(servers: str, properties: Path | Mapping[str, str] | None) -> ClientSettings:
    """Return the client's settings for the source, from a client's properties file or settings by Kafka's keys.

    Raise ConfigError with every mistake.
    """
    path, settings = (properties, {}) if isinstance(properties, Path) else (None, properties or {})
    config = ClientConfig.load(path, {**settings, "bootstrap.servers": servers})
    chosen = ClientSettings.of(config)
    return chosen if config.is_set("client.id") else replace(chosen, client_id=_CLIENT_ID)
