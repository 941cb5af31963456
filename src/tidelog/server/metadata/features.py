"""Features: what this release supports, what a new cluster of a release begins with, and what a level depends on.

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

share.version and streams.version are kept for the Kafka that comes back to the directory: the broker serves neither
share groups nor streams groups, and does not advertise their APIs.
Pure. Source: Kafka's ``MetadataVersion``, ``Feature``, ``QuorumFeatures``; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.server.metadata.broker_registration import VersionRange
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
"""By feature and level."""

_DEFAULT_SINCE: Final[Mapping[str, Mapping[int, int]]] = {
    ELIGIBLE_LEADERS: {1: 26},
    GROUP_VERSION: {1: 22},
    _SHARE_VERSION: {1: 28, 2: 31},
    _STREAMS_VERSION: {1: 29},
    TRANSACTION_VERSION: {2: 24},
}
"""By feature and level: from which metadata.version on a new cluster has it."""

CORDONED_DIRECTORIES_SINCE: Final = 30
"""metadata.version 4.3-IV0 (KIP-1066)."""

CHANGED_RECORDS: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""The levels of metadata.version whose records are others than those of the level before."""

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
"""By release, its steps, IV0 and so on: one level each, from ``MINIMUM_METADATA_VERSION`` on."""


def new_cluster(metadata_version: int) -> dict[str, int]:
    """The levels that a cluster of that release begins with, in Kafka's order."""
    levels = {METADATA_VERSION: metadata_version}
    for name in sorted(_DEFAULT_SINCE):
        level = max((level for level, since in _DEFAULT_SINCE[name].items() if since <= metadata_version), default=0)
        if level:
            levels[name] = level
    return levels


NEW_CLUSTER: Final[Mapping[str, int]] = new_cluster(LATEST_METADATA_VERSION)


def metadata_version_of(release: str) -> int:
    """Return the level of ``4.4``, which is its last step, or of ``4.4-IV0``. ValueError if it is not supported."""
    name = ".".join(release.strip().split(".")[:2])
    levels = SUPPORTED[METADATA_VERSION]
    names = {release_name(level).split("-")[0]: level for level in range(levels.oldest, levels.latest + 1)}
    names |= {release_name(level): level for level in range(levels.oldest, levels.latest + 1)}
    if name not in names:
        oldest, latest = release_name(levels.oldest), release_name(levels.latest)
        raise ValueError(f"{release} is not a release that is supported: those are {oldest} to {latest}")
    return names[name]


def release_name(metadata_version: int) -> str:
    """Return ``4.4-IV2`` for 33. ValueError for one that is not supported."""
    if metadata_version not in SUPPORTED[METADATA_VERSION]:
        raise ValueError(f"metadata.version {metadata_version} is not supported")
    names = [f"{release}-IV{step}" for release, steps in _RELEASES.items() for step in steps]
    return names[metadata_version - MINIMUM_METADATA_VERSION]


def version_set_by(records: Iterable[MetadataRecord]) -> int | None:
    """The metadata.version that one of them finalizes: they are written in it. None where none does."""
    for record in records:
        if record.name == "FeatureLevelRecord" and record.fields["name"] == METADATA_VERSION:
            return int(record.fields["featureLevel"])
    return None


def keeps_eligible_leaders(image: MetadataImage) -> bool:
    """Whether those who could lead are remembered when they are no longer in sync (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADERS, 0) > 0


def supports_cordoned_directories(image: MetadataImage) -> bool:
    """Return whether the metadata can say which log directories get no new partitions."""
    return image.metadata_version >= CORDONED_DIRECTORIES_SINCE
