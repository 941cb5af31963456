"""UpdateFeatures: it changes the finalized levels of features, all or none (KIP-584, KIP-1022)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.operation import Operation
from tidelog.server.metadata.requests import FeatureUpdate, UpgradeType
from tidelog.server.network.request_context import RequestContext

if TYPE_CHECKING:
    from tidelog.protocol.message_types import cluster as wire
    from tidelog.server.cluster_node import ClusterNode

_FIRST_WITH_UPGRADE_TYPE = 1
_LAST_WITH_RESULTS = 1


async def handle(
    node: ClusterNode, context: RequestContext, request: wire.UpdateFeaturesRequest
) -> wire.UpdateFeaturesResponse:
    node.authorizer.require(context, Operation.ALTER)
    updates = [_update(context.version, update) for update in request.feature_updates]
    outcome = await node.controller.update_features(updates, validate_only=request.validate_only)
    if outcome.is_failure:
        reason = f"The update failed for all features since the following feature had an error: {outcome.message}"
        raise ApiError(outcome.error, reason)
    if context.version > _LAST_WITH_RESULTS:
        return {"error_message": None}
    code = ErrorCode.NONE
    results: list[wire.UpdatableFeatureResult] = [
        {"feature": update.feature, "error_code": code, "error_message": code.name} for update in updates
    ]
    return {"error_message": None, "results": results}


def _update(version: int, update: wire.FeatureUpdateKey) -> FeatureUpdate:
    """Return the update. Version 0 has a flag instead of the upgrade type."""
    number = update.upgrade_type
    if version < _FIRST_WITH_UPGRADE_TYPE:
        number = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    kind = next((known for known in UpgradeType if known == number), UpgradeType.UNKNOWN)
    return FeatureUpdate(update.feature, update.max_version_level, kind)
