"""Validation of a resource's name, and of the configs that it would have after a change. Pure.

===============  =====================================================================================================
topic            a legal name; known keys and legal values, also in combination (``TopicSettings``)
broker           empty for the default of all, or a number; the broker itself validates the values
group            a name; known keys, and legal values within the broker's bounds (``GroupSettings``)
client metrics   a name; for changed keys: known, an interval from 100 ms to 1 h, and valid patterns
others           refused: the metadata has no configs of them
===============  =====================================================================================================

Source: Kafka's ``ControllerConfigurationValidator``, ``ConfigurationControlManager``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.resources.client_subscription import check_client_metrics
from tidelog.config.resources.group_settings import GroupSettings
from tidelog.config.topic_settings import TopicSettings
from tidelog.model import ConfigError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.topic_name import check_topic_name
from tidelog.server.configs.resource_type import ResourceType

_NUMBER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_MIN_ISR = "min.insync.replicas"


def check_resource(
    resource_type: ResourceType,
    name: str,
    after: Mapping[str, str],
    *,
    before: Mapping[str, str],
    broker: BrokerConfig,
) -> None:
    """Raise ApiError or ConfigError with Kafka's message if ``after``, the new configs, are invalid."""
    match resource_type:
        case ResourceType.TOPIC:
            _require(name, "Default topic resources are not allowed.")
            check_topic_name(name)
            TopicSettings.of(after, broker, before=before)
        case ResourceType.BROKER:
            _check_broker_name(name)
        case ResourceType.GROUP:
            _require(name, "Default group resources are not allowed.")
            GroupSettings.of(after, broker)
        case ResourceType.CLIENT_METRICS:
            _require(name, "Subscription name can't be empty")
            check_client_metrics({key: text for key, text in after.items() if text != before.get(key)})
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type.name}")


def check_min_isr(name: str, changes: Mapping[str, str | None]) -> None:
    """Raise ConfigError if a broker gets its own ``min.insync.replicas``, or the cluster loses its value (KIP-966).

    ``name`` is the broker whose configs change, or empty for all.
    """
    if _MIN_ISR in changes and name:
        raise ConfigError(f"Broker-level {_MIN_ISR} cannot be altered while ELR is enabled.")
    if _MIN_ISR in changes and changes[_MIN_ISR] is None:
        raise ConfigError(f"Cluster-level {_MIN_ISR} cannot be removed while ELR is enabled.")


def _require(name: str, refusal: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)


def _check_broker_name(name: str) -> None:
    if name and not _NUMBER.fullmatch(name):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if name and int(name) < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
