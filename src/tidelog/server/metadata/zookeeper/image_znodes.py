"""The znodes of parts of the metadata: the inverse of ``translation``. Pure.

Facts that only KRaft keeps are lost: log directories of replicas, eligible leader replicas.
Source: Kafka's ``ZkMigrationClient``.
"""

from __future__ import annotations

from typing import Final

from tidelog.config.columns import DOUBLE
from tidelog.config.quota_keys import CLIENT_QUOTAS
from tidelog.config.value_text import format_value
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.quotas import ADDRESS, CLIENT_ID, USER
from tidelog.server.metadata.image import ConfigResource, QuotaEntity
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znodes import StateZnode

_CONFIG_ROOTS: Final = {ResourceType.TOPIC: paths.TOPIC_CONFIGS, ResourceType.BROKER: paths.BROKER_CONFIGS}
_DOUBLES: Final = {name for name, quota in CLIENT_QUOTAS.items() if quota.type == DOUBLE}
"""The quotas that may have a fraction."""
_ENTITY_ROOTS: Final = {CLIENT_ID: paths.CLIENT_CONFIGS, USER: paths.USER_CONFIGS, ADDRESS: paths.ADDRESS_CONFIGS}


def state_znode(state: PartitionState, controller_epoch: int) -> StateZnode:
    return StateZnode(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        controller_epoch=controller_epoch,
        isr=state.isr,
        is_recovering=state.is_recovering,
    )


def config_path(resource: ConfigResource) -> str:
    """Return the path of the settings of a topic or broker."""
    return f"{_CONFIG_ROOTS[resource.type]}/{resource.name or paths.DEFAULT}"


def entity_path(entity: QuotaEntity) -> str:
    """Return the path of the settings of a user, client or address."""
    names = {kind: paths.encoded_name(name) for kind, name in entity}
    if USER in names and CLIENT_ID in names:
        return f"{paths.user_clients(f'{paths.USER_CONFIGS}/{names[USER]}')}/{names[CLIENT_ID]}"
    ((kind, name),) = names.items()
    return f"{_ENTITY_ROOTS[kind]}/{name}"


def quota_text(key: str, value: float) -> str:
    """Return a quota as Kafka writes it: a double has a fraction, and other types are whole numbers.
    Source: ``ZkAdminManager.alterClientQuotas``."""
    if key in _DOUBLES or not value.is_integer():
        return format_value(value)
    return str(int(value))
