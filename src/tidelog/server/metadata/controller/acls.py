"""Changes of access control lists: ACLs are added one by one and deleted by filters. Pure.

Adding an existing ACL is a no-op. An error in one ACL or filter fails only that one.
Source: Kafka's ``AclControlManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.acl import Acl, AclFilter, Permission
from tidelog.server.authorization.host_pattern import is_range, parse_range
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import CLUSTER, AclResourceType, PatternType
from tidelog.server.metadata.controller.decision import MAX_RECORDS, Decision, require_bounded
from tidelog.server.metadata.features import release_name
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import DONE, Outcome, RemovedAcls
from tidelog.storage.checkpoint import random_uuid, uuid_to_text

HOST_RANGES_SINCE: Final = 32
"""The metadata.version 4.4-IV1, from which every broker understands host ranges (KIP-1276)."""


def create_acls(image: MetadataImage, acls: Sequence[Acl]) -> Decision[list[Outcome]]:
    known = set(image.acls.values())
    records: list[MetadataRecord] = []
    outcomes = []
    for acl in acls:
        try:
            _check(acl)
            _check_host(acl.host, image.metadata_version)
        except ApiError as error:
            outcomes.append(Outcome.of(error))
            continue
        if acl not in known:
            known.add(acl)
            records.append(acl_record(uuid_to_text(random_uuid()), acl))
            require_bounded(len(records))
        outcomes.append(DONE)
    return Decision(records, outcomes)


def delete_acls(image: MetadataImage, filters: Sequence[AclFilter]) -> Decision[list[RemovedAcls]]:
    removed: dict[str, None] = {}
    results = []
    for wanted in filters:
        try:
            _check_filter(wanted)
            found = {acl_id: acl for acl_id, acl in image.acls.items() if wanted.fits(acl)}
            if len(removed.keys() | found.keys()) > MAX_RECORDS:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"Cannot remove more than {MAX_RECORDS} acls in a single delete operation.",
                )
        except ApiError as error:
            results.append(RemovedAcls(Outcome.of(error)))
            continue
        removed |= dict.fromkeys(found)
        results.append(RemovedAcls(DONE, list(found.values())))
    return Decision([MetadataRecord("RemoveAccessControlEntryRecord", {"id": acl_id}) for acl_id in removed], results)


def acl_record(acl_id: str, acl: Acl) -> MetadataRecord:
    return MetadataRecord("AccessControlEntryRecord", {"id": acl_id, **acl.fields()})


def _check(acl: Acl) -> None:
    pattern = acl.pattern
    if pattern.resource_type is AclResourceType.CLUSTER and pattern.name != CLUSTER.name:
        raise _refusal(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    if not pattern.name:
        raise _refusal("Invalid empty resource name")
    if pattern.resource_type in (AclResourceType.UNKNOWN, AclResourceType.ANY):
        raise _refusal(f"Invalid resourceType {pattern.resource_type.name}")
    if pattern.type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _refusal(f"Invalid patternType {pattern.type.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _refusal(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _refusal(f"Invalid permissionType {acl.permission.name}")
    if ":" not in acl.principal:
        raise _refusal(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from "
            "the principal name)"
        )


def _check_host(host: str, metadata_version: int) -> None:
    if not host:
        raise _refusal("Host pattern cannot be null or empty")
    if not is_range(host):
        return
    if metadata_version < HOST_RANGES_SINCE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"CIDR-based ACL host patterns require metadata version {release_name(HOST_RANGES_SINCE)} or higher.",
        )
    try:
        parse_range(host)
    except ValueError as error:
        raise _refusal(f"Invalid CIDR notation '{host}': {error}") from None


def _check_filter(wanted: AclFilter) -> None:
    if AclResourceType.UNKNOWN is wanted.resource_type or PatternType.UNKNOWN is wanted.pattern_type:
        raise _refusal("Unknown patternFilter.")
    if Operation.UNKNOWN is wanted.operation or Permission.UNKNOWN is wanted.permission:
        raise _refusal("Unknown entryFilter.")


def _refusal(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
