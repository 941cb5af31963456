"""The life of a broker's registration: its records, and the changes of the broker's partitions.

States of a registration: *fenced* -> ``unfence_broker`` -> *active* -> ``begin_shutdown`` -> *in controlled shutdown*
-> ``fence_broker`` -> *fenced*. A broker that registers again with the same incarnation id amends its registration.
Another id is another incarnation: after an unclean shutdown it may have lost committed records, so it loses its place
among in-sync and eligible replicas. A block of producer ids goes to
one broker, and never twice. Pure. Source: Kafka's ``ClusterControlManager``, ``ProducerIdControlManager``,
``ReplicationControlManager.handleBroker…``; KIP-631, KIP-966, KIP-1066."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.registration_request import BrokerEndpoint, VersionRange
from tidelog.server.metadata.broker_registration import BrokerRegistration, feature_fields
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.controller.leaders import PartitionRef, add_broker, remove_broker, remove_unclean_broker
from tidelog.server.metadata.features import (
    KRAFT_VERSION,
    SUPPORTED,
    keeps_eligible_leaders,
    supports_cordoned_directories,
    supports_directories,
)
from tidelog.server.metadata.image import METADATA_VERSION, MINIMUM_METADATA_VERSION, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import uuid_to_text

_FENCE, _UNFENCE = 1, -1
_SHUTTING_DOWN = 1
_CONTROLLERS_REGISTER_SINCE = 15
"""The metadata.version 3.7-IV0."""
_RESERVED_IDS = 100
"""The first ids, which stand for the states of a directory (``DirectoryId`` of Kafka)."""
_ABSENT = VersionRange(0, 0)
"""The levels of a feature that a broker does not name."""
_OLDEST_METADATA = VersionRange(MINIMUM_METADATA_VERSION, MINIMUM_METADATA_VERSION)
"""The levels of metadata.version of a broker that does not name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRegistration:
    """A broker's request to register."""

    broker_id: int
    incarnation_id: uuid.UUID
    endpoints: Sequence[BrokerEndpoint]
    directories: Sequence[uuid.UUID]
    rack: str | None
    previous_epoch: int | None
    """The epoch of its previous run after a clean shutdown, or None."""
    features: Mapping[str, VersionRange] = field(default_factory=lambda: SUPPORTED)
    """The levels that it supports."""


def register_controller(
    image: MetadataImage,
    node_id: int,
    incarnation_id: uuid.UUID,
    endpoints: Sequence[BrokerEndpoint],
    features: Mapping[str, VersionRange] = SUPPORTED,
) -> Decision[None]:
    """Record the features and endpoints of a controller. Raise ApiError(UNSUPPORTED_VERSION) before 3.7-IV0."""
    if not registers_controllers(image):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    fields = {
        "controllerId": node_id,
        "incarnationId": uuid_to_text(incarnation_id),
        "zkMigrationReady": False,
        "endPoints": [endpoint.fields() for endpoint in endpoints],
        "features": feature_fields(features),
    }
    return Decision([MetadataRecord("RegisterControllerRecord", fields)], None)


def registers_controllers(image: MetadataImage) -> bool:
    """Return True if the metadata can record controllers."""
    return image.metadata_version >= _CONTROLLERS_REGISTER_SINCE


def require_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerRegistration:
    """Return a broker's registration. Raise ApiError(STALE_BROKER_EPOCH) unless it has that epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        )
    return broker


def register_broker(
    image: MetadataImage,
    settings: ControllerSettings,
    new: NewRegistration,
    next_offset: int,
    *,
    kraft_version: int = 0,
) -> Decision[int]:
    """Return the broker's epoch: ``next_offset``, or the known one if the incarnation is registered already.

    The record of a new incarnation is written at that offset or after it. An amended registration keeps its state and
    the broker's partitions. Raise ApiError(INVALID_REGISTRATION), and UNSUPPORTED_VERSION if a finalized feature is not
    supported.
    """
    if supports_directories(image):
        _check_directories(image, new)
    features = {METADATA_VERSION: _OLDEST_METADATA, **new.features}
    _check_features({**image.features, KRAFT_VERSION: kraft_version}, features)
    existing = image.brokers.get(new.broker_id)
    amended = existing if existing is not None and existing.incarnation_id == new.incarnation_id else None
    records = [] if amended is not None else _remove_predecessor(image, settings, new, existing)
    registration = BrokerRegistration(
        id=new.broker_id,
        epoch=next_offset if amended is None else amended.epoch,
        incarnation_id=new.incarnation_id,
        listeners={endpoint.name: endpoint for endpoint in new.endpoints},
        features=features,
        rack=new.rack,
        is_fenced=amended is None or amended.is_fenced,
        in_controlled_shutdown=amended is not None and amended.in_controlled_shutdown,
        log_dirs=frozenset(new.directories),
    )
    records.append(MetadataRecord("RegisterBrokerRecord", registration.fields()))
    return Decision(records, registration.epoch)


def _remove_predecessor(
    image: MetadataImage, settings: ControllerSettings, new: NewRegistration, existing: BrokerRegistration | None
) -> list[MetadataRecord]:
    """Return the changes of the partitions of the broker's previous incarnation."""
    stopped_in_order = existing is not None and existing.epoch == new.previous_epoch
    leave = remove_broker if stopped_in_order or not keeps_eligible_leaders(image) else remove_unclean_broker
    return leave(image, settings, new.broker_id)


def unfence_broker(
    image: MetadataImage, settings: ControllerSettings, broker_id: int, cordoned: Collection[uuid.UUID] = ()
) -> Decision[None]:
    """Unfence a broker that has caught up.

    ``cordoned``: its log directories that get no new partitions. Kafka reads them from the same heartbeat. Therefore
    they are part of the same change, and the broker gets no partition before they are known.
    """
    unfenced = [_change(image, broker_id, fenced=_UNFENCE), *add_broker(image, settings, broker_id)]
    return Decision([*unfenced, *cordon_directories(image, broker_id, cordoned).records], None)


def begin_shutdown(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> Decision[None]:
    """Hand over the broker's leaderships and remove it from all in-sync replicas."""
    removed = remove_broker(image, settings, broker_id)
    return Decision([_change(image, broker_id, inControlledShutdown=_SHUTTING_DOWN), *removed], None)


def unregister_broker(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> Decision[None]:
    """Forget a broker. Raise ApiError(BROKER_ID_NOT_REGISTERED), and INVALID_REQUEST for the active broker in the
    controller's process: it sends no heartbeats, so it would not register again."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    if broker_id == settings.node_id and broker.is_active:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {broker_id} runs in the controller's process: stop that node to take the broker away",
        )
    removed = remove_broker(image, settings, broker_id, everywhere=True)
    fields = {"brokerId": broker_id, "brokerEpoch": broker.epoch}
    return Decision([*removed, MetadataRecord("UnregisterBrokerRecord", fields)], None)


def fence_broker(image: MetadataImage, settings: ControllerSettings, broker_id: int) -> Decision[None]:
    """Mark a broker as fenced after it has stopped, cleanly or not."""
    return Decision(
        [*remove_broker(image, settings, broker_id), _change(image, broker_id, fenced=_FENCE)],
        None,
    )


def take_directories_offline(
    image: MetadataImage, settings: ControllerSettings, broker_id: int, offline: Sequence[uuid.UUID]
) -> Decision[None]:
    """Treat the broker as removed for the partitions in its failed log directories."""
    broker = image.brokers.get(broker_id)
    lost = frozenset() if broker is None else broker.log_dirs & set(offline)
    if broker is None or not lost:
        return Decision((), None)
    places = [
        place
        for place in (PartitionRef(*found) for found in image.partitions())
        if broker_id in place.state.isr and place.state.directory_of(broker_id) in lost
    ]
    left = sorted(map(uuid_to_text, broker.log_dirs - lost))
    records = [*remove_broker(image, settings, broker_id, places), _change(image, broker_id, logDirs=left)]
    return Decision(records, None)


def cordon_directories(image: MetadataImage, broker_id: int, cordoned: Collection[uuid.UUID]) -> Decision[None]:
    """Record the cordoned log directories. It is a no-op if they are known, or if the metadata.version lacks them.

    The first report after a registration is always recorded, even an empty one.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or not supports_cordoned_directories(image) or broker.cordoned_log_dirs == frozenset(cordoned):
        return Decision((), None)
    return Decision([_change(image, broker_id, cordonedLogDirs=sorted(map(uuid_to_text, cordoned)))], None)


def _change(image: MetadataImage, broker_id: int, **fields: Any) -> MetadataRecord:
    epoch = image.brokers[broker_id].epoch
    return MetadataRecord("BrokerRegistrationChangeRecord", {"brokerId": broker_id, "brokerEpoch": epoch, **fields})


def _check_features(finalized: Mapping[str, int], supported: Mapping[str, VersionRange]) -> None:
    """Raise ApiError(UNSUPPORTED_VERSION) unless each finalized level is supported. A feature that either side does not
    name has level 0."""
    for name in {**supported, **finalized}:
        level, levels = finalized.get(name, 0), supported.get(name, _ABSENT)
        if level not in levels:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. The"
                f" broker wants a version between {levels.oldest} and {levels.latest}, inclusive.",
            )


def _check_directories(image: MetadataImage, new: NewRegistration) -> None:
    if not new.directories:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(directory.int < _RESERVED_IDS for directory in new.directories):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(new.directories)) != len(new.directories):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in image.brokers.values():
        shared = broker.log_dirs & set(new.directories)
        if broker.id != new.broker_id and shared:
            raise ApiError(
                ErrorCode.INVALID_REGISTRATION,
                f"Broker {broker.id} is already registered with directory {uuid_to_text(min(shared))}",
            )


PRODUCER_ID_BLOCK: Final = 1000
_LONG_MAX = 2**63 - 1


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[range]:
    """Return the next block. Raise ApiError(UNKNOWN_SERVER_ERROR) if no ids are left."""
    first = image.next_producer_id
    if first > _LONG_MAX - PRODUCER_ID_BLOCK:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    end = first + PRODUCER_ID_BLOCK
    fields = {"brokerId": broker_id, "brokerEpoch": broker_epoch, "nextProducerId": end}
    return Decision([MetadataRecord("ProducerIdsRecord", fields)], range(first, end))
