"""The first records of a new cluster: as a format command requests them, and as the first controller writes them.

The format command leaves them in a ``snapshot``. A new controller writes records before any request:

===========================================  =====================================================================
log                                          records
===========================================  =====================================================================
has no metadata records                      the first records from formatting, as a transaction; with eligible
                                             leader replicas also ``min.insync.replicas`` for all brokers
ends in an unfinished transaction            an abort of the transaction (an empty log then begins again)
any other                                    none
===========================================  =====================================================================

Features come first: ``metadata.version``, then the others by name. Other requested records follow. A feature that is
not requested has the release's level. Level 0 has no record, and ``kraft.version`` has none because the quorum keeps
it. Pure. Source: Kafka's ``Formatter``, ``BootstrapMetadata``, ``Feature``, ``ActivationRecordsGenerator``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.model import ConfigError
from tidelog.server.metadata.controller.decision import ControllerSettings
from tidelog.server.metadata.controller.feature_updates import feature_record, min_isr_records
from tidelog.server.metadata.controller.scram_users import OLDEST_METADATA_VERSION
from tidelog.server.metadata.features import (
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    NEEDED_METADATA_VERSION,
    NEW_CLUSTER,
    SUPPORTED,
    keeps_eligible_leaders,
    metadata_version_of,
    new_cluster,
)
from tidelog.server.metadata.image import METADATA_VERSION, MetadataImage
from tidelog.server.metadata.kraft.replay import MetadataReplay
from tidelog.server.metadata.metadata_record import MetadataRecord

NEW_CLUSTER_RECORDS: Final[Sequence[MetadataRecord]] = tuple(
    feature_record(name, level) for name, level in NEW_CLUSTER.items()
)
"""The first records of a cluster of this release."""


def feature_levels(release: str | None, asked: Mapping[str, int], *, voters_in_log: bool) -> dict[str, int]:
    """Return the levels by feature, with ``kraft.version``. Raise ConfigError for unknown or incompatible features."""
    levels = new_cluster(_metadata_version(release, asked))
    levels[KRAFT_VERSION] = _kraft_version(asked.get(KRAFT_VERSION), voters_in_log)
    for name, level in asked.items():
        if name not in SUPPORTED:
            raise ConfigError(f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(SUPPORTED))}")
        if level not in SUPPORTED[name]:
            raise ConfigError(f"No feature:{name} with feature level {level}; supported levels are {SUPPORTED[name]}")
        levels[name] = level
    for name, level in levels.items():
        needed = NEEDED_METADATA_VERSION.get((name, level), 0)
        if levels[METADATA_VERSION] < needed:
            raise ConfigError(
                f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
            )
    return levels


def bootstrap_records(levels: Mapping[str, int], credentials: Sequence[MetadataRecord] = ()) -> list[MetadataRecord]:
    """Return the first records for ``levels`` of ``feature_levels`` and for the SCRAM ``credentials``. Raise
    ConfigError if the release does not support SCRAM."""
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
    """Return 1 if the voters are in the log. Raise ConfigError if the requested version contradicts that."""
    if asked is not None and bool(asked) != voters_in_log:
        where = "in the log (--standalone or --initial-controllers)" if voters_in_log else "in controller.quorum.voters"
        raise ConfigError(f"Cannot set {KRAFT_VERSION} to {asked}: the voters are {where}")
    return int(voters_in_log)


_TRANSACTIONS_SINCE: Final = 13
"""The metadata.version 3.6-IV1."""
_ABORT: Final = MetadataRecord("AbortTransactionRecord", {"reason": "Controller failover"})


def activation_records(
    replay: MetadataReplay, bootstrap: Sequence[MetadataRecord], settings: ControllerSettings
) -> list[MetadataRecord]:
    """Return the records; ``bootstrap`` has the first records of a new cluster."""
    records = [_ABORT] if replay.is_in_transaction else []
    if not replay.is_empty:
        return records
    image = MetadataImage()
    for record in bootstrap:
        image.apply(record)
    first = list(bootstrap)
    if keeps_eligible_leaders(image):
        first += min_isr_records(image, settings)
    if image.metadata_version < _TRANSACTIONS_SINCE:
        return records + first
    begin = MetadataRecord("BeginTransactionRecord", {"name": "Bootstrap records"})
    return [*records, begin, *first, MetadataRecord("EndTransactionRecord", {})]
