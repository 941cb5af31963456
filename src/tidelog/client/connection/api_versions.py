"""The versions of a broker's APIs, and the choice of one for a request. Pure.

=================================  ====================================================================================
the caller gives                   the version
=================================  ====================================================================================
nothing                            the highest that the broker and the client support
``at_most``, ``at_least``          the highest of them within these bounds
``at_most`` and ``at_least`` equal  exactly this version
=================================  ====================================================================================

Source: Kafka's ``NodeApiVersions``, ``ApiVersionsResponse``; KIP-35, KIP-511.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.client.model.errors import UnsupportedVersionError
from tidelog.protocol.api_key import VERSIONS, ApiKey, VersionRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersions:
    broker: str
    """The broker's name for messages."""
    ranges: Mapping[int, tuple[int, int]]
    """The oldest and the latest version by API key. Keys that this client does not know are included."""
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    """The levels of the cluster's features, such as ``metadata.version`` (KIP-584). Empty before Kafka 2.7."""
    finalized_features_epoch: int = -1

    @classmethod
    def of_response(cls, broker: str, response: Any) -> ApiVersions:
        """Return the versions of an ApiVersions response."""
        features = getattr(response, "finalized_features", ())
        return cls(
            broker=broker,
            ranges=ranges_of(response.api_keys),
            finalized_features={one.name: one.max_version_level for one in features},
            finalized_features_epoch=response.finalized_features_epoch,
        )

    def version_of(self, api: ApiKey, *, at_most: int | None = None, at_least: int | None = None) -> int:
        """Return the version for a request. Raise UnsupportedVersionError if there is none."""
        known = VERSIONS[api]
        oldest = known.oldest if at_least is None else max(known.oldest, at_least)
        latest = known.latest if at_most is None else min(known.latest, at_most)
        found = self.ranges.get(api)
        if found is not None:
            version = min(latest, found[1])
            if version >= max(oldest, found[0]):
                return version
        raise UnsupportedVersionError(_refused(self.broker, api, found, (oldest, latest)))

    def supports(self, api: ApiKey, *, at_least: int | None = None) -> bool:
        """Return True if a version for a request exists."""
        try:
            self.version_of(api, at_least=at_least)
        except UnsupportedVersionError:
            return False
        return True


def ranges_of(rows: Iterable[Any]) -> dict[int, tuple[int, int]]:
    return {int(row.api_key): (row.min_version, row.max_version) for row in rows}


def _refused(broker: str, api: ApiKey, found: tuple[int, int] | None, wanted: tuple[int, int]) -> str:
    needed = f"this client needs {_range(wanted)}" if wanted[0] <= wanted[1] else "no version meets the caller's bounds"
    if found is None:
        return f"{broker} does not support {api.title}; {needed}"
    return f"{broker} supports {api.title} in {_range(found)}, but {needed}"


def _range(versions: VersionRange | tuple[int, int]) -> str:
    oldest, latest = versions[0], versions[1]
    return f"version {oldest}" if oldest == latest else f"versions {oldest} to {latest}"
