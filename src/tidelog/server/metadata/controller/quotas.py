"""Changes of the quotas of users, clients and IP addresses.

One refused operation refuses its entity. Pure. Source: Kafka's ``ClientQuotaControlManager``; KIP-546, KIP-612.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from tidelog.config.key import Key
from tidelog.config.quota_keys import ADDRESS_QUOTAS, CLIENT_QUOTAS
from tidelog.config.value_text import KeyType
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.controller.decision import Decision, require_bounded
from tidelog.server.metadata.image import MetadataImage, QuotaEntity
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import DONE, Outcome, QuotaChange

USER, CLIENT_ID, ADDRESS = "user", "client-id", "ip"
_LARGEST = {
    KeyType.SHORT: ("a SHORT", 2**15 - 1),
    KeyType.INT: ("an INT", 2**31 - 1),
    KeyType.LONG: ("a LONG", 2**63 - 1),
}


def alter_client_quotas(image: MetadataImage, changes: Sequence[QuotaChange]) -> Decision[list[Outcome]]:
    """Change quotas. Raise ApiError(POLICY_VIOLATION) for too many operations, as Kafka does for too many records."""
    require_bounded(sum(max(1, len(change.operations)) for change in changes))
    records: list[MetadataRecord] = []
    outcomes = []
    seen: set[QuotaEntity] = set()
    for change in changes:
        entity = tuple(sorted(change.entity, key=lambda part: part[0]))
        try:
            if entity in seen:
                raise _refusal(f"Ignoring duplicate entity {dict(entity)}")
            seen.add(entity)
            records += _entity_records(image, entity, change.operations)
        except ApiError as error:
            outcomes.append(Outcome.of(error))
        else:
            outcomes.append(DONE)
    return Decision(records, outcomes)


def _entity_records(
    image: MetadataImage, entity: QuotaEntity, operations: Sequence[tuple[str, float | None]]
) -> list[MetadataRecord]:
    keys = _keys_of(entity)
    present = image.client_quotas.get(entity, {})
    parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
    records, seen = [], set()
    for name, value in operations:
        if name in seen:
            raise _refusal(f"Duplicate quota key {name} not updating quota for this entity {dict(entity)}")
        seen.add(name)
        if value is not None:
            _check_value(keys, name, value)
        if value != present.get(name):
            fields = {"entity": parts, "key": name, "value": value or 0.0, "remove": value is None}
            records.append(MetadataRecord("ClientQuotaRecord", fields))
    return records


def _keys_of(entity: QuotaEntity) -> Mapping[str, Key]:
    """Return the quota keys that an entity can have. Raise ApiError if the entity is not valid."""
    kinds = [kind for kind, _ in entity]
    if not kinds:
        raise _refusal("Invalid empty client quota entity")
    for kind in kinds:
        if kind not in (USER, CLIENT_ID, ADDRESS):
            raise _refusal(f"Unhandled client quota entity type: {kind}")
        if kinds.count(kind) > 1:
            raise _refusal(f"Invalid client quota entity, duplicate entity entry {kind}")
    for kind, name in entity:
        if name == "":
            raise _refusal(f"Empty {kind} not supported")
    if ADDRESS not in kinds:
        return CLIENT_QUOTAS
    if len(kinds) > 1:
        raise _refusal("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    _check_address(dict(entity)[ADDRESS])
    return ADDRESS_QUOTAS


def _check_address(name: str | None) -> None:
    """Raise ApiError unless it is an IP address or None. Host names are not resolved, because the controller must not
    wait for the network."""
    try:
        if name is not None:
            ipaddress.ip_address(name)
    except ValueError:
        raise _refusal(f"{name} is not a valid IP or resolvable host.") from None


def _check_value(keys: Mapping[str, Key], name: str, value: float) -> None:
    key = keys.get(name)
    if key is None:
        raise _refusal(f"Invalid configuration key {name}")
    if not value > 0:  # NaN is not above 0 either
        raise _refusal(f"Quota {name} must be greater than 0")
    if key.type not in _LARGEST:
        return
    kind, largest = _LARGEST[key.type]
    if value > largest:
        raise _refusal(f"Proposed value for {name} is too large for {kind}.")
    if abs(value % 1.0) > 1e-6:
        raise _refusal(f"{name} cannot be a fractional value.")


def _refusal(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
