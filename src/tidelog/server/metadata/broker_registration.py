"""A broker's registration in the cluster metadata. Immutable values; pure.

A broker is *fenced* until it has caught up with the metadata, and again after it has stopped. A fenced broker leads no
partition and is hidden from clients. In a *controlled shutdown* it first hands over the partitions that it leads.
Source: Kafka's ``BrokerRegistration``.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from tidelog.replication.registration_request import BrokerEndpoint, VersionRange
from tidelog.storage.checkpoint import uuid_from_text, uuid_to_text

_FENCE, _UNFENCE = 1, -1
_SHUTTING_DOWN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """A registered broker. ``epoch`` is the offset of the registration; a later registration of the same id replaces
    it."""

    id: int
    epoch: int
    incarnation_id: uuid.UUID
    listeners: Mapping[str, BrokerEndpoint]
    features: Mapping[str, VersionRange]
    rack: str | None
    is_fenced: bool
    in_controlled_shutdown: bool
    log_dirs: frozenset[uuid.UUID]
    """The ids of the online log directories."""
    cordoned_log_dirs: frozenset[uuid.UUID] | None = None
    """The ids of log directories that get no new partitions (KIP-1066). It is None until the broker has reported
    them."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the registration of a ``RegisterBrokerRecord``."""
        endpoints = map(BrokerEndpoint.of, fields["endPoints"])
        return cls(
            id=fields["brokerId"],
            epoch=fields["brokerEpoch"],
            incarnation_id=uuid_from_text(fields["incarnationId"]),
            listeners={endpoint.name: endpoint for endpoint in endpoints},
            features=feature_ranges(fields["features"]),
            rack=fields["rack"],
            is_fenced=fields["fenced"],
            in_controlled_shutdown=fields.get("inControlledShutdown", False),
            log_dirs=frozenset(map(uuid_from_text, fields.get("logDirs") or ())),
            cordoned_log_dirs=_ids(fields.get("cordonedLogDirs")),
        )

    def changed(self, fields: Mapping[str, Any]) -> Self:
        """Return the registration after a ``BrokerRegistrationChangeRecord``. Missing fields keep their values."""
        fenced = fields.get("fenced", 0)
        dirs = fields.get("logDirs") or ()
        cordoned = _ids(fields.get("cordonedLogDirs"))
        return replace(
            self,
            is_fenced={_FENCE: True, _UNFENCE: False}.get(fenced, self.is_fenced),
            in_controlled_shutdown=self.in_controlled_shutdown or fields.get("inControlledShutdown") == _SHUTTING_DOWN,
            log_dirs=frozenset(map(uuid_from_text, dirs)) or self.log_dirs,
            cordoned_log_dirs=self.cordoned_log_dirs if cordoned is None else cordoned,
        )

    def fields(self) -> dict[str, Any]:
        """Return the fields of a ``RegisterBrokerRecord``."""
        return {
            "brokerId": self.id,
            "incarnationId": uuid_to_text(self.incarnation_id),
            "brokerEpoch": self.epoch,
            "endPoints": [endpoint.fields() for endpoint in self.listeners.values()],
            "features": feature_fields(self.features),
            "rack": self.rack,
            "fenced": self.is_fenced,
            "inControlledShutdown": self.in_controlled_shutdown,
            "logDirs": sorted(map(uuid_to_text, self.log_dirs)),
            "cordonedLogDirs": (
                None if self.cordoned_log_dirs is None else sorted(map(uuid_to_text, self.cordoned_log_dirs))
            ),
        }

    @property
    def is_active(self) -> bool:
        """True if it may lead partitions and get new ones."""
        return not self.is_fenced and not self.in_controlled_shutdown

    @property
    def takes_partitions(self) -> bool:
        """True if a log directory is not cordoned, or if the broker has not reported its directories."""
        return not self.log_dirs or self.cordoned_log_dirs is None or not self.log_dirs <= self.cordoned_log_dirs


def _ids(texts: list[str] | None) -> frozenset[uuid.UUID] | None:
    return None if texts is None else frozenset(map(uuid_from_text, texts))


def feature_ranges(fields: list[dict[str, Any]]) -> dict[str, VersionRange]:
    """Return the level ranges from the fields of a broker's or controller's record."""
    return {
        feature["name"]: VersionRange(feature["minSupportedVersion"], feature["maxSupportedVersion"])
        for feature in fields
    }


def feature_fields(features: Mapping[str, VersionRange]) -> list[dict[str, Any]]:
    """Return the record fields of level ranges; the inverse of ``feature_ranges``."""
    return [
        {"name": name, "minSupportedVersion": levels.oldest, "maxSupportedVersion": levels.latest}
        for name, levels in features.items()
    ]
