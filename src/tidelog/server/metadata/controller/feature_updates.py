"""Changes of the finalized feature levels: all of a request, or none. Pure.

This release and every registered broker and controller must support the level. A lower level must be requested as a
downgrade. ``metadata.version`` can only go down to a level with the same record formats. ``kraft.version`` belongs to
the quorum and does not change here. Source: Kafka's ``FeatureControlManager``; KIP-584.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.registration_request import VersionRange
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_registration import feature_ranges
from tidelog.server.metadata.controller.configs import MIN_ISR, clear_eligible_record, config_record
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.features import (
    CHANGED_RECORDS,
    ELIGIBLE_LEADERS,
    KRAFT_VERSION,
    NEEDED_METADATA_VERSION,
    SUPPORTED,
)
from tidelog.server.metadata.image import METADATA_VERSION, ConfigResource, MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import DONE, FeatureUpdate, Outcome, UpgradeType

_UNSUPPORTED = VersionRange(0, 0)
_ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


def update_features(
    image: MetadataImage, settings: ControllerSettings, updates: Sequence[FeatureUpdate]
) -> Decision[Outcome]:
    """Decide all updates. The outcome is that of the first refused one."""
    proposed = {**image.features, **{update.feature: update.level for update in updates}}
    records = []
    for update in updates:
        try:
            _check(image, settings.node_id, update, proposed)
        except ApiError as error:
            return Decision((), Outcome.of(error))
        records.append(feature_record(update.feature, update.level))
        if update.feature == ELIGIBLE_LEADERS:
            records += min_isr_records(image, settings) if update.level else [clear_eligible_record()]
    return Decision(records, DONE)


def feature_record(name: str, level: int) -> MetadataRecord:
    return MetadataRecord("FeatureLevelRecord", {"name": name, "featureLevel": level})


def min_isr_records(image: MetadataImage, settings: ControllerSettings) -> list[MetadataRecord]:
    """Return records that leave one cluster-wide ``min.insync.replicas``, as eligible leader replicas require
    (KIP-966)."""
    records = [
        config_record(resource, MIN_ISR, None)
        for resource, found in image.configs.items()
        if resource.type is ResourceType.BROKER and resource.name and MIN_ISR in found
    ]
    if MIN_ISR not in image.configs.get(_ALL_BROKERS, {}):
        records.insert(0, config_record(_ALL_BROKERS, MIN_ISR, str(settings.config.number(MIN_ISR))))
    return records


def _check(image: MetadataImage, node_id: int, update: FeatureUpdate, proposed: Mapping[str, int]) -> None:
    name, level = update.feature, update.level
    present = image.metadata_version if name == METADATA_VERSION else image.features.get(name, 0)
    if update.upgrade_type is UpgradeType.UNKNOWN:
        raise _refusal(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refusal(update, "A feature version cannot be less than 0.")
    reason = _reason_not_supported(image, node_id, name, level)
    if reason is not None:
        raise _refusal(update, reason)
    is_upgrade = update.upgrade_type is UpgradeType.UPGRADE
    if level < present and is_upgrade:
        raise _refusal(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
            " downgrade.",
        )
    if level > present and not is_upgrade:
        raise _refusal(update, "Can't downgrade to a newer version.")
    if name == KRAFT_VERSION:
        raise _refusal(update, "The quorum has one voter, which keeps the version it was formatted with.")
    if name == METADATA_VERSION:
        _check_metadata_version(update, present)
    needed = NEEDED_METADATA_VERSION.get((name, level), 0)
    if proposed.get(METADATA_VERSION, image.metadata_version) < needed:
        raise _refusal(
            update,
            f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}",
        )


def _check_metadata_version(update: FeatureUpdate, present: int) -> None:
    level = update.level
    if any(level < changed <= present for changed in CHANGED_RECORDS):
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
        if update.upgrade_type is UpgradeType.UNSAFE_DOWNGRADE:
            reason = "Unsafe metadata downgrade is not supported in this version."
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid metadata.version {level}. {reason}")


def _reason_not_supported(image: MetadataImage, node_id: int, name: str, level: int) -> str | None:
    who = {f"Broker {broker.id}": broker.features for broker in image.brokers.values()}
    who |= {f"Controller {node}": feature_ranges(fields["features"]) for node, fields in image.controllers.items()}
    for one, features in {f"Local controller {node_id}": SUPPORTED, **who}.items():
        levels = features.get(name, _UNSUPPORTED)
        if level in levels:
            continue
        if levels.latest == 0:
            return f"{one} does not support this feature."
        return f"{one} only supports versions {levels}"
    return None


def _refusal(update: FeatureUpdate, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.level} for feature {update.feature}. {reason}",
    )
