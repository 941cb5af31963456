"""The index of the ACLs decides the same as a linear search over all ACLs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.acl_index import AclIndex, Client
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import WILDCARD, AclResourceType, PatternType, Resource

TYPES = (AclResourceType.TOPIC, AclResourceType.GROUP)
OPERATIONS = tuple(one for one in Operation if one > Operation.ANY)
PRINCIPALS = ("User:ann", "User:bob", "User:*", "Group:ann")
HOSTS = ("10.0.0.1", "10.0.0.2", WILDCARD)
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}

names = st.text("ab*", min_size=1, max_size=4)
operations = st.sampled_from(OPERATIONS)
acls = st.builds(
    Acl,
    st.builds(
        Pattern,
        st.sampled_from(TYPES),
        names | st.just(WILDCARD),
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    operations,
    st.sampled_from(Permission),
)
clients = st.builds(Client, st.sampled_from(PRINCIPALS[:2]), st.sampled_from(HOSTS[:2]))
resources = st.builds(Resource, st.sampled_from(TYPES), names)


def is_about(acl: Acl, resource: Resource) -> bool:
    pattern = acl.pattern
    if pattern.resource_type is not resource.type:
        return False
    if pattern.type is PatternType.PREFIXED:
        return resource.name.startswith(pattern.name)
    is_starred = resource.name.startswith(WILDCARD)
    return pattern.name == resource.name or (pattern.name == WILDCARD and not is_starred)


def is_for(acl: Acl, client: Client) -> bool:
    return acl.principal in (client.principal, "User:*") and acl.host in (client.host, WILDCARD)


def may(found: list[Acl], client: Client, operation: Operation, resource: Resource, *, default: bool) -> bool:
    """Apply Kafka's rules to each ACL in turn: any permission other than ALLOW denies."""
    about = [acl for acl in found if is_about(acl, resource)]
    own = [acl for acl in about if is_for(acl, client)]
    same = {operation, Operation.ALL}
    if any(acl.permission is not Permission.ALLOW and acl.operation in same for acl in own):
        return False
    if any(acl.permission is Permission.ALLOW and acl.operation in same | IMPLIED.get(operation, set()) for acl in own):
        return True
    return default and not about


@given(st.lists(acls, max_size=12), clients, operations, resources, st.booleans())
def test_a_verdict_is_what_a_list_says(
    found: list[Acl], client: Client, operation: Operation, resource: Resource, default: bool
) -> None:
    decision = AclIndex().changed(found).decide(client, operation, resource, default=default)
    assert decision.is_allowed == may(found, client, operation, resource, default=default)
    if decision.acl is not None:
        assert is_about(decision.acl, resource)
        assert is_for(decision.acl, client)
        assert (decision.acl.permission is Permission.ALLOW) == decision.is_allowed


@given(st.lists(st.tuples(st.lists(acls, max_size=4), st.integers(0, 3)), max_size=6), clients, operations, resources)
def test_changes_one_after_the_other_come_to_the_same(
    steps: list[tuple[list[Acl], int]], client: Client, operation: Operation, resource: Resource
) -> None:
    index, left = AclIndex(), []
    for added, removals in steps:
        left += added
        removed = left[:removals]
        before = list(index)
        changed = index.changed(added, removed)
        assert list(index) == before
        index, left = changed, left[removals:]
    assert sorted(index) == sorted(left)
    decision = index.decide(client, operation, resource, default=False)
    assert decision.is_allowed == may(left, client, operation, resource, default=False)


@given(st.lists(acls, max_size=8), clients, st.sampled_from([Operation.READ, Operation.WRITE]))
def test_something_is_allowed_where_some_name_is(found: list[Acl], client: Client, operation: Operation) -> None:
    """The oracle uses only ACLs for the operation itself. Only one direction is asserted: like Kafka, the index ignores
    denials of names that are longer than an allowed prefix."""
    kind = AclResourceType.TOPIC
    exact = [acl for acl in found if acl.operation in (operation, Operation.ALL)]
    tried = [name + end for acl in exact for name in [acl.pattern.name] for end in ("", "zz")] + ["zz"]
    plain = [name for name in tried if not name.startswith(WILDCARD)]
    some = any(may(exact, client, operation, Resource(kind, name), default=False) for name in plain)
    if some:
        assert AclIndex().changed(found).allows_some(client, operation, kind)
    wildcard = Pattern(kind, WILDCARD)
    denied = Acl(wildcard, client.principal, client.host, operation, Permission.DENY)
    assert not AclIndex().changed([*found, denied]).allows_some(client, operation, kind)


def acl(name: str, kind: PatternType = PatternType.LITERAL, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(Pattern(AclResourceType.TOPIC, name, kind), "User:ann", WILDCARD, Operation.WRITE, permission)


@pytest.mark.parametrize("permission", [Permission.UNKNOWN, Permission.ANY])
def test_a_permission_that_is_none_allows_nothing(permission: Permission) -> None:
    """A record in the metadata log may contain any permission number."""
    client, resource = Client("User:ann", "10.0.0.1"), Resource(AclResourceType.TOPIC, "t")
    for found in ([acl("t", permission=permission)], [acl("t"), acl("t", permission=permission)]):
        assert not AclIndex().changed(found).decide(client, Operation.WRITE, resource, default=True).is_allowed


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], False),
        ([acl("t")], True),
        ([acl("t"), acl("t", permission=Permission.DENY)], False),
        ([acl("t", permission=Permission.ANY)], False),
        ([acl("t"), acl("t", permission=Permission.UNKNOWN)], False),
        ([acl("t", PatternType.PREFIXED), acl("t", permission=Permission.DENY)], True),
        ([acl("tt"), acl("t", PatternType.PREFIXED, Permission.DENY)], False),
        ([acl("t", PatternType.PREFIXED), acl("t", PatternType.PREFIXED, Permission.DENY)], False),
        ([acl("t", PatternType.PREFIXED), acl("tt", PatternType.PREFIXED, Permission.DENY)], True),
        ([acl(WILDCARD), acl("t", permission=Permission.DENY)], True),
        ([acl("t"), acl(WILDCARD, permission=Permission.DENY)], False),
    ],
)
def test_whether_something_is_allowed(found: list[Acl], expected: bool) -> None:
    client = Client("User:ann", "10.0.0.1")
    assert AclIndex().changed(found).allows_some(client, Operation.WRITE, AclResourceType.TOPIC) == expected
    assert not AclIndex().changed(found).allows_some(client, Operation.READ, AclResourceType.TOPIC)
    assert not AclIndex().changed(found).allows_some(client, Operation.WRITE, AclResourceType.GROUP)


class TestFilters:
    ANN = acl("orders")
    PREFIX = acl("ord", PatternType.PREFIXED)
    ALL = acl(WILDCARD)
    OTHER = acl("other")._replace(host="10.0.0.1", operation=Operation.READ, permission=Permission.DENY)
    EVERY = (ANN, PREFIX, ALL, OTHER)

    @pytest.mark.parametrize(
        ("wanted", "fitting"),
        [
            (AclFilter(), EVERY),
            (AclFilter(name="orders"), (ANN,)),
            (AclFilter(name="ord"), (PREFIX,)),
            (AclFilter(name="ord", pattern_type=PatternType.LITERAL), ()),
            (AclFilter(pattern_type=PatternType.PREFIXED), (PREFIX,)),
            (AclFilter(name="orders", pattern_type=PatternType.MATCH), (ANN, PREFIX, ALL)),
            (AclFilter(name="ord", pattern_type=PatternType.MATCH), (PREFIX, ALL)),
            (AclFilter(resource_type=AclResourceType.TOPIC), EVERY),
            (AclFilter(resource_type=AclResourceType.GROUP), ()),
            (AclFilter(resource_type=AclResourceType.UNKNOWN), ()),
            (AclFilter(principal="User:ann"), EVERY),
            (AclFilter(principal="User:bob"), ()),
            (AclFilter(host="10.0.0.1"), (OTHER,)),
            (AclFilter(host="10.0.0.2"), ()),
            (AclFilter(operation=Operation.READ), (OTHER,)),
            (AclFilter(permission=Permission.ALLOW), (ANN, PREFIX, ALL)),
        ],
    )
    def test_fit(self, wanted: AclFilter, fitting: tuple[Acl, ...]) -> None:
        assert tuple(one for one in self.EVERY if wanted.fits(one)) == fitting
