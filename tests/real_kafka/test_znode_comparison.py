"""The comparison of znodes finds each kind of difference, and ignores random parts only."""

from __future__ import annotations

from typing import Any

from real_kafka.znode_comparison import Allowed, differences, unexplained


def znode(data: str | None, version: int = 0) -> dict[str, Any]:
    return {"data": data, "version": version}


FIRST = {
    "/same": znode('{"version":1,"topic_id":"one","isr":[1,2]}'),
    "/gone": znode(None),
    "/order": znode('{"a":1,"b":2}'),
    "/acls": znode('{"acls":[{"principal":"User:b"},{"principal":"User:a"}]}'),
    "/isr": znode('{"isr":[1,2]}'),
    "/user": znode('{"config":{"SCRAM-SHA-256":"salt=x,stored_key=y,server_key=z,iterations=5000"}}'),
    "/version": znode("2", 1),
}
SECOND = {
    "/same": znode('{"version":1,"topic_id":"two","isr":[1,2]}'),
    "/new": znode("text"),
    "/order": znode('{"b":2,"a":1}'),
    "/acls": znode('{"acls":[{"principal":"User:a"},{"principal":"User:b"}]}'),
    "/isr": znode('{"isr":[2,1]}'),
    "/user": znode('{"config":{"SCRAM-SHA-256":"salt=a,stored_key=b,server_key=c,iterations=6000"}}'),
    "/version": znode("2", 2),
}


def test_every_difference_is_found() -> None:
    found = {(one.path, one.kind) for one in differences(FIRST, SECOND)}
    assert found == {
        ("/gone", "missing"),
        ("/new", "new"),
        ("/order", "data"),
        ("/isr", "data"),
        ("/user", "data"),
        ("/version", "version"),
    }


def test_a_row_explains_its_kinds_of_its_paths_only() -> None:
    table = [Allowed.of("/(gone|new)", "missing", "reason"), Allowed.of("/version", "version data", "reason")]
    left = unexplained(differences(FIRST, SECOND), table)
    assert [line.partition(":")[0] for line in left] == ["/isr", "/new", "/order", "/user"]
