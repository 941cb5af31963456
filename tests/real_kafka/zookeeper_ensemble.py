"""A ZooKeeper server, or an ensemble of three that elect a leader, and a client that sees the znodes of a cluster.

A tick of 500 ms allows sessions of 1 to 10 seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from real_kafka.broker import PATIENCE_S, BrokerError
from real_kafka.zookeeper_cluster import ZooKeeperServer
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znodes import ControllerZnode, StateZnode, TopicZnode
from tidelog.testing.broker.kept_port import keep_port

_SETTINGS: Final = {"tickTime": "500", "initLimit": "40", "syncLimit": "20"}
"""The limits are in ticks. A busy machine needs the time."""


class ZooKeeperEnsemble:
    """The servers, each its own process. They are killed at the end of the context."""

    def __init__(self, work: Path, count: int = 1) -> None:
        self._places = [keep_port() for _ in range(2 * count if count > 1 else 0)]
        ports = [place.getsockname()[1] for place in self._places]
        peers = {
            f"server.{number}": f"127.0.0.1:{ports[2 * number - 2]}:{ports[2 * number - 1]}"
            for number in range(1, len(ports) // 2 + 1)
        }
        self.servers = [
            ZooKeeperServer(work / f"server-{number}", settings={**_SETTINGS, **peers})
            for number in range(1, count + 1)
        ]
        for number, server in enumerate(self.servers, 1):
            server.data.mkdir(exist_ok=True)
            (server.data / "myid").write_text(f"{number}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self.servers:
            server.__exit__(kind, error, trace)
        for place in self._places:
            place.close()

    @property
    def address(self) -> str:
        """The addresses of all servers."""
        return ",".join(server.address for server in self.servers)

    def start(self, *servers: ZooKeeperServer) -> None:
        """Start servers, or all of them, and return when they accept sessions."""
        for server in servers or self.servers:
            server.launch()
        for server in servers or self.servers:
            server.wait_until_started()


class ZnodeClient:
    """A client of ZooKeeper that no fault of a link affects. Paths are below the chroot, which may be missing at first.

    A request that fails because servers do not run is repeated. Thread rule: one thread.
    """

    def __init__(self, address: str, chroot: str) -> None:
        self._chroot = chroot
        self._kazoo = KazooClient(address, timeout=10)

    def __enter__(self) -> Self:
        self._kazoo.start(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kazoo.stop()
        self._kazoo.close()

    def read(self, path: str) -> bytes | None:
        """Return the data, or None if the znode is missing."""
        try:
            return bytes(self._repeated(self._kazoo.get, path)[0] or b"")
        except NoNodeError:
            return None

    def created_in(self, path: str) -> int | None:
        """Return the transaction that created the znode, which is a registration's broker epoch, or None."""
        stat = self._repeated(self._kazoo.exists, path)
        return None if stat is None else int(stat.czxid)

    def children(self, path: str) -> list[str]:
        """Return the sorted names; none if the znode is missing."""
        try:
            return sorted(self._repeated(self._kazoo.get_children, path))
        except NoNodeError:
            return []

    def create(self, path: str, data: bytes = b"", **options: Any) -> str:
        """Create a znode as ``zookeeper-shell`` does, with its parents if they are missing. Return its path."""
        created = str(self._kazoo.create(self._chroot + path, data, makepath=True, **options))
        return created.removeprefix(self._chroot)

    def write(self, path: str, data: bytes) -> None:
        """Replace the data of a znode, whatever its version is."""
        self._kazoo.set(self._chroot + path, data)

    def delete(self, path: str) -> None:
        """Delete a znode with everything below it."""
        self._kazoo.delete(self._chroot + path, recursive=True)

    # --- a cluster ---

    def controller(self) -> int | None:
        """Return the broker that is the controller, or None."""
        data = self.read(paths.CONTROLLER)
        return None if data is None else ControllerZnode.decode(paths.CONTROLLER, data).broker_id

    def broker_epoch(self, broker: int) -> int | None:
        """Return the epoch of a broker's registration, or None."""
        return self.created_in(paths.broker(broker))

    def states(self) -> dict[tuple[str, int], tuple[TopicZnode, StateZnode | None]]:
        """Return the topic and the state of each partition. A new partition has no state yet."""
        found: dict[tuple[str, int], tuple[TopicZnode, StateZnode | None]] = {}
        for name in self.children(paths.TOPICS):
            data = self.read(paths.topic(name))
            topic = None if data is None else TopicZnode.decode(paths.topic(name), data)
            for partition in () if topic is None else topic.replicas:
                path = paths.state(name, partition)
                data = self.read(path)
                assert topic is not None
                found[name, partition] = topic, None if data is None else StateZnode.decode(path, data)
        return found

    def _repeated(self, request: Callable[[str], Any], path: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return request(self._chroot + path)
            except NoNodeError:
                raise
            except (KazooException, KazooTimeoutError):
                if time.monotonic() > deadline:
                    raise BrokerError(f"ZooKeeper does not respond to a request for {path}") from None
                time.sleep(0.1)
