"""The versions of requests between brokers. The cluster's metadata.version chooses them; they are not negotiated.

==========  =====================  =====================  ===========================================================
since       metadata.version       version                reason
==========  =====================  =====================  ===========================================================
Fetch       27 (4.1-IV1)           18                     KIP-1166
Fetch       21 (3.9-IV0)           17                     KIP-853
Fetch       19 (3.7-IV4)           16                     KIP-951
Fetch       10 (3.5-IV1)           15                     the broker epoch of the follower (KIP-903)
Fetch       9 (3.5-IV0)            14                     KIP-405
Fetch       any                    13                     topic ids (KIP-516)
==========  =====================  =====================  ===========================================================

==============  =====================  ===============
request         metadata.version       version
==============  =====================  ===============
ListOffsets     29 (4.2-IV1)           11
ListOffsets     25 (4.0-IV3)           10
ListOffsets     21 (3.9-IV0)           9
ListOffsets     9 (3.5-IV0)            8
ListOffsets     any                    7
==============  =====================  ===============

Pure. Source: Kafka's ``MetadataVersion.fetchRequestVersion`` and ``listOffsetRequestVersion``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_FETCH: Final = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14), (0, 13))
_LIST_OFFSETS: Final = ((29, 11), (25, 10), (21, 9), (9, 8), (0, 7))
"""The metadata.version from which on a request has the version, the newest first."""


def fetch_version(metadata_version: int) -> int:
    return _version(_FETCH, metadata_version)


def list_offsets_version(metadata_version: int) -> int:
    return _version(_LIST_OFFSETS, metadata_version)


def _version(versions: Sequence[tuple[int, int]], metadata_version: int) -> int:
    return next(version for since, version in versions if metadata_version >= since)
