"""The records that a new cluster begins with, as whoever formats a directory asks for them (see ``snapshot``).

Features come first, ``metadata.version`` before the others and these by name; then what else is asked for. A level that
is not asked for is the one that a cluster of that release has; one of 0 has no record, and ``kraft.version`` has none
either: the quorum keeps it. Pure. Source: Kafka's ``Formatter``, ``BootstrapMetadata``, ``Feature``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.model import ConfigError
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.controller.scram_users import OLDEST_METADATA_VERSION
from tidelog.server.metadata.features import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    NEEDED_METADATA_VERSION,
    NEW_CLUSTER,
    SUPPORTED,
    metadata_version_of,
    new_cluster,
)
from tidelog.server.metadata.image import METADATA_VERSION
from tidelog.server.metadata.metadata_record import MetadataRecord

"""metadata.version 3.5-IV2."""

NEW_RECORDS: Final[Sequence[MetadataRecord]] = tuple(feature_record(name, level) for name, level in NEW_CLUSTER.items())
"""Of a cluster of this release."""


def feature_levels(release: str | None, asked: Mapping[str, int], *, voters_in_log: bool) -> dict[str, int]:
    """Level by feature, ``kraft.version`` among them. ConfigError for what there is not, or does not go together."""
    levels = new_cluster(_metadata_version(release, asked))
    levels[KRAFT_VERSION] = _kraft_version(asked.get(KRAFT_VERSION), voters_in_log)
    for name, level in asked.items():
        if name not in SUPPORTED:
            raise ConfigError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(SUPPORTED))}")
        if level not in SUPPORTED[name]:
            raise ConfigError(f"No feature:{name} with feature level {level}; supported are {SUPPORTED[name]}")
        levels[name] = level
    for name, level in levels.items():
        needed = NEEDED_METADATA_VERSION.get((name, level), 0)
        if levels[METADATA_VERSION] < needed:
            raise ConfigError(
                f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
            )
    return levels


def first_records(levels: Mapping[str, int], credentials: Sequence[MetadataRecord] = ()) -> list[MetadataRecord]:
    """``levels`` as of ``feature_levels``; ``credentials`` are SCRAM users'. ConfigError where the release has none."""
    if credentials and levels[METADATA_VERSION] < OLDEST_METADATA_VERSION:
        raise ConfigError(
            f"SCRAM is only supported in {METADATA_VERSION} {OLDEST_METADATA_VERSION} (3.5-IV2) or later."
        )
    others = sorted(name for name in levels if name not in (METADATA_VERSION, KRAFT_VERSION) and levels[name])
    return [*(feature_record(name, levels[name]) for name in (METADATA_VERSION, *others)), *credentials]


def _metadata_version(release: str | None, asked: Mapping[str, int]) -> int:
    if METADATA_VERSION in asked:
        if release is not None:
            raise ConfigError(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
        return asked[METADATA_VERSION]
    try:
        return LATEST_METADATA_VERSION if release is None else metadata_version_of(release)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _kraft_version(asked: int | None, voters_in_log: bool) -> int:
    """Whether the voters stand in the log is what it says."""
    if asked is not None and bool(asked) != voters_in_log:
        where = "in the log (--standalone or --initial-controllers)" if voters_in_log else "in controller.quorum.voters"
        raise ConfigError(f"Cannot set {KRAFT_VERSION} to {asked}: the voters stand {where}")
    return int(voters_in_log)
