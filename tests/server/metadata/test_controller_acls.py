"""ACLs are changed by the controller: added once, removed by filters, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from server.metadata.images import image_of
from tidelog.protocol.errors import ErrorCode
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.metadata.controller.acls import create_acls, delete_acls
from tidelog.server.metadata.image import MetadataImage

READ = Acl(Pattern(AclResourceType.TOPIC, "t"), "User:ann", "*", Operation.READ, Permission.ALLOW)
WRITE = READ._replace(operation=Operation.WRITE)
PREFIX = READ._replace(pattern=Pattern(AclResourceType.GROUP, "t", PatternType.PREFIXED))


def image_with(*acls: Acl) -> MetadataImage:
    image = image_of()
    for record in create_acls(image, acls).records:
        image.apply(record)
    return image


def test_an_entry_is_added_once() -> None:
    image = image_with(READ)
    decision = create_acls(image, [READ, WRITE, WRITE, PREFIX])
    assert [outcome.error for outcome in decision.result] == [ErrorCode.NONE] * 4
    for record in decision.records:
        image.apply(record)
    assert list(image.acls.values()) == [READ, WRITE, PREFIX]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (READ._replace(pattern=Pattern(AclResourceType.CLUSTER, "x")), "The only valid name for the CLUSTER resource"),
        (READ._replace(pattern=Pattern(AclResourceType.TOPIC, "")), "Invalid empty resource name"),
        (READ._replace(pattern=Pattern(AclResourceType.ANY, "t")), "Invalid resourceType ANY"),
        (READ._replace(pattern=Pattern(AclResourceType.TOPIC, "t", PatternType.MATCH)), "Invalid patternType MATCH"),
        (READ._replace(operation=Operation.ANY), "Invalid operation ANY"),
        (READ._replace(permission=Permission.ANY), "Invalid permissionType ANY"),
        (READ._replace(principal="ann"), "Could not parse principal from `ann`"),
    ],
)
def test_what_is_wrong_with_one_is_said_of_it_alone(wrong: Acl, reason: str) -> None:
    decision = create_acls(image_of(), [wrong, READ])
    refused, done = decision.result
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert reason in (refused.message or "")
    assert done.error is ErrorCode.NONE
    assert len(decision.records) == 1


def test_filters_remove_what_they_fit() -> None:
    image = image_with(READ, WRITE, PREFIX)
    wanted: list[Any] = [
        AclFilter(operation=Operation.READ),
        AclFilter(name="t", pattern_type=PatternType.LITERAL),
        AclFilter(operation=Operation.UNKNOWN),
        AclFilter(resource_type=AclResourceType.UNKNOWN),
        AclFilter(name="u"),
    ]
    decision = delete_acls(image, wanted)
    assert [(one.outcome.error, list(one.acls)) for one in decision.result] == [
        (ErrorCode.NONE, [READ, PREFIX]),
        (ErrorCode.NONE, [READ, WRITE]),
        (ErrorCode.INVALID_REQUEST, []),
        (ErrorCode.INVALID_REQUEST, []),
        (ErrorCode.NONE, []),
    ]
    assert len(decision.records) == 3
    for record in decision.records:
        image.apply(record)
    assert not image.acls
