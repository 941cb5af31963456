"""The znodes of a new cluster equal those of Kafka 3.9, and brokers that start together create them once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from golden_sets import captured_znodes
from tidelog.model import ZnodeError, ZooKeeperError
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.first_znodes import first_znodes, make_first_znodes
from tidelog.server.metadata.zookeeper.operations import Create, Operation, ReadZnode, ZnodeConflictError


@dataclass
class Session:
    """Znodes with their data. ``before_commit`` are znodes that another broker creates just before the commits."""

    znodes: dict[str, bytes] = field(default_factory=dict)
    before_commit: list[list[Create]] = field(default_factory=list)
    commits: int = 0

    async def sync(self) -> None:
        await asyncio.sleep(0)

    async def read(self, paths: Sequence[str]) -> list[ReadZnode | None]:
        await asyncio.sleep(0)
        return [ReadZnode(self.znodes[path], 0, 1, 0, 0) if path in self.znodes else None for path in paths]

    async def commit(self, operations: Sequence[Operation]) -> list[str | None]:
        await asyncio.sleep(0)
        self.commits += 1
        if self.before_commit:
            self.znodes |= {one.path: one.data for one in self.before_commit.pop(0)}
        created = [one for one in operations if isinstance(one, Create)]
        for one in created:
            parent = one.path.rpartition("/")[0]
            if one.path in self.znodes or (parent and parent not in self.znodes and parent not in _paths(created)):
                raise ZnodeConflictError(one, "NodeExistsError" if one.path in self.znodes else "NoNodeError")
        self.znodes |= {one.path: one.data for one in created}
        return [one.path for one in created]


def _paths(operations: Sequence[Create]) -> list[str]:
    return [one.path for one in operations]


def test_equal_to_those_of_kafka() -> None:
    """Every znode without data that Kafka's cluster had is here, without the topics and settings of its clients."""
    captured = captured_znodes()
    made = {one.path: one.data for one in first_znodes("jH0nbk9ERqqsNCvrhNzc0Q", has_authorizer=True)}
    for path, data in made.items():
        if path != paths.PRODUCER_IDS:  # a block was taken later
            assert data == (captured[path]["data"] or "").encode(), path
    topics_and_users = ("/brokers/topics/", "/config/users/")
    empty = {
        path for path, found in captured.items() if found["data"] is None and not path.startswith(topics_and_users)
    }
    assert empty - {"/"} == {path for path, data in made.items() if not data} - {paths.PRODUCER_IDS}


def test_without_an_authorizer() -> None:
    made = [one.path for one in first_znodes("id", has_authorizer=False)]
    assert "/brokers/ids" in made
    assert not [path for path in made if "acl" in path]


def test_each_follows_its_parent() -> None:
    made = _paths(first_znodes("id", has_authorizer=True))
    assert len(made) == len(set(made))
    for at, path in enumerate(made):
        parent = path.rpartition("/")[0]
        assert not parent or parent in made[:at]


class TestMaking:
    def test_the_id_of_a_cluster_stays(self) -> None:
        session = Session()
        new = asyncio.run(make_first_znodes(session))
        assert len(new) == 22
        assert asyncio.run(make_first_znodes(session)) == new
        del session.znodes["/config/ips"]
        assert asyncio.run(make_first_znodes(session)) == new
        assert "/config/ips" in session.znodes
        assert asyncio.run(make_first_znodes(Session())) != new

    def test_brokers_that_start_together(self) -> None:
        async def run() -> None:
            session = Session()
            ids = await asyncio.gather(*(make_first_znodes(session, has_authorizer=True) for _ in range(5)))
            assert len(set(ids)) == 1
            assert session.commits > 5

        asyncio.run(run())

    def test_an_older_broker_that_creates_one_by_one(self) -> None:
        wanted = first_znodes("theirs", has_authorizer=False)
        session = Session(before_commit=[wanted[:1], wanted[1:4], wanted])
        assert asyncio.run(make_first_znodes(session)) == "theirs"

    def test_other_conflicts_are_errors(self) -> None:
        class Refusing(Session):
            async def commit(self, operations: Sequence[Operation]) -> list[str | None]:
                raise ZnodeConflictError(operations[0], "NoNodeError")

        with pytest.raises(ZnodeConflictError):
            asyncio.run(make_first_znodes(Refusing()))

    def test_an_id_that_is_not_valid(self) -> None:
        with pytest.raises(ZnodeError, match="znode /cluster/id"):
            asyncio.run(make_first_znodes(Session({paths.CLUSTER_ID: b"junk"})))

    def test_an_id_that_goes(self) -> None:
        class Losing(Session):
            async def read(self, paths: Sequence[str]) -> list[ReadZnode | None]:
                return await super().read(paths) if len(paths) > 1 else [None]

        with pytest.raises(ZooKeeperError, match="has gone"):
            asyncio.run(make_first_znodes(Losing()))
