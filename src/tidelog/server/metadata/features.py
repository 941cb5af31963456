"""Features: the supported levels, the levels of a new cluster, and the dependencies between levels.

=================================  ==============  =======================  =========================
feature                            supported       a new cluster of 4.4     needs metadata.version
=================================  ==============  =======================  =========================
metadata.version                   7 (3.3) – 33    33 (4.4-IV2)             –
kraft.version                      0 – 1           1, kept by the quorum    –
eligible.leader.replicas.version   0 – 1           1                        23 (4.0-IV1) for level 1
group.version                      0 – 1           1                        –
share.version                      0 – 2           2                        –
streams.version                    0 – 1           1                        –
transaction.version                0 – 2           2                        –
=================================  ==============  =======================  =========================

share.version and streams.version are kept for a later return to Kafka: this broker serves neither share groups nor
streams groups, and does not advertise their APIs. Pure. Source: Kafka's ``MetadataVersion``, ``Feature``,
``QuorumFeatures``; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.replication.registration_request import VersionRange
from tidelog.server.metadata.image import METADATA_VERSION, MINIMUM_METADATA_VERSION, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord

LATEST_METADATA_VERSION: Final = 33
ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
KRAFT_VERSION: Final = "kraft.version"
_SHARE_VERSION: Final = "share.version"
_STREAMS_VERSION: Final = "streams.version"

SUPPORTED: Final[Mapping[str, VersionRange]] = {
    GROUP_VERSION: VersionRange(0, 1),
    KRAFT_VERSION: VersionRange(0, 1),
    METADATA_VERSION: VersionRange(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    _SHARE_VERSION: VersionRange(0, 2),
    _STREAMS_VERSION: VersionRange(0, 1),
    TRANSACTION_VERSION: VersionRange(0, 2),
    ELIGIBLE_LEADERS: VersionRange(0, 1),
}

NEEDED_METADATA_VERSION: Final[Mapping[tuple[str, int], int]] = {
    (ELIGIBLE_LEADERS, 1): 23,
}
"""The metadata.version that a feature's level depends on, by feature and level."""

_DEFAULT_SINCE: Final[Mapping[str, Mapping[int, int]]] = {
    ELIGIBLE_LEADERS: {1: 26},
    GROUP_VERSION: {1: 22},
    _SHARE_VERSION: {1: 28, 2: 31},
    _STREAMS_VERSION: {1: 29},
    TRANSACTION_VERSION: {2: 24},
}
"""The metadata.version from which a new cluster has a feature's level, by feature and level."""

DIRECTORIES_SINCE: Final = 17
"""The metadata.version 3.7-IV2, since which replicas have log directories (KIP-858)."""
CORDONED_DIRECTORIES_SINCE: Final = 30
"""The metadata.version 4.3-IV0 (KIP-1066)."""

CHANGED_RECORDS: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""The levels of metadata.version that changed the format of records."""

_RELEASES: Final = {
    "3.3": range(3, 4),
    "3.4": range(1),
    "3.5": range(3),
    "3.6": range(3),
    "3.7": range(5),
    "3.8": range(1),
    "3.9": range(1),
    "4.0": range(4),
    "4.1": range(2),
    "4.2": range(2),
    "4.3": range(1),
    "4.4": range(3),
}
"""The steps (IV0 and so on) of each release; each is one level, from ``MINIMUM_METADATA_VERSION`` on."""


def new_cluster(metadata_version: int) -> dict[str, int]:
    """Return the levels that a new cluster of that release has, in Kafka's order."""
    levels = {METADATA_VERSION: metadata_version}
    for name in sorted(_DEFAULT_SINCE):
        level = max((level for level, since in _DEFAULT_SINCE[name].items() if since <= metadata_version), default=0)
        if level:
            levels[name] = level
    return levels


NEW_CLUSTER: Final[Mapping[str, int]] = new_cluster(LATEST_METADATA_VERSION)


def metadata_version_of(release: str) -> int:
    """Return the level of ``4.4``, which is its last step, or of ``4.4-IV0``. Raise ValueError if the release is not
    supported."""
    name = ".".join(release.strip().split(".")[:2])
    levels = SUPPORTED[METADATA_VERSION]
    names = {release_name(level).split("-")[0]: level for level in range(levels.oldest, levels.latest + 1)}
    names |= {release_name(level): level for level in range(levels.oldest, levels.latest + 1)}
    if name not in names:
        oldest, latest = release_name(levels.oldest), release_name(levels.latest)
        raise ValueError(f"release {release} is not supported: supported releases are {oldest} to {latest}")
    return names[name]


def release_name(metadata_version: int) -> str:
    """Return the release of a level: ``4.4-IV2`` for 33. Raise ValueError if the level is not supported."""
    if metadata_version not in SUPPORTED[METADATA_VERSION]:
        raise ValueError(f"metadata.version {metadata_version} is not supported")
    names = [f"{release}-IV{step}" for release, steps in _RELEASES.items() for step in steps]
    return names[metadata_version - MINIMUM_METADATA_VERSION]


def version_set_by(records: Iterable[MetadataRecord]) -> int | None:
    """Return the metadata.version that the records finalize, or None. The records themselves are encoded in it."""
    for record in records:
        if record.name == "FeatureLevelRecord" and record.fields["name"] == METADATA_VERSION:
            return int(record.fields["featureLevel"])
    return None


def keeps_eligible_leaders(image: MetadataImage) -> bool:
    """Return True if the metadata tracks eligible leader replicas (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADERS, 0) > 0


def supports_cordoned_directories(image: MetadataImage) -> bool:
    """Return True if the metadata can record cordoned log directories."""
    return image.metadata_version >= CORDONED_DIRECTORIES_SINCE


def supports_directories(image: MetadataImage) -> bool:
    """Return True if the metadata records the log directories of replicas."""
    return image.metadata_version >= DIRECTORIES_SINCE
