"""A client that reads znodes. kazoo is imported with the first client.

A reader cannot write: it has no method for it, and the client below refuses every request but reads before it is sent.
Requests are pipelined, because a cluster has as many znodes as partitions. Each wait has a timeout, and an error names
the servers and the path. Before the first read, the server catches up with the ensemble's leader (``sync``).

Thread rule: one thread; kazoo has one of its own for each client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, Self

from tidelog.model import ConfigError, ReadOnlyError, ZnodeError, ZooKeeperError
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper.znode_tree import Znode

_PIPELINED: Final = 256
"""The most requests without a response."""
MAX_CHILDREN: Final = 250_000
"""The most children of a znode. Kafka's clusters with ZooKeeper had at most 200,000 partitions in all."""
_INSTALL: Final = "pip install 'tidelog[zookeeper]'"


class ZnodeReader(Protocol):
    """The reads of znodes. Paths are below the chroot."""

    def read(self, paths: Sequence[str]) -> Iterator[Znode | None]:
        """Yield each znode, or None if it is missing."""
        ...

    def list_children(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the sorted names of each znode's children; none if the znode is missing."""
        ...


class KazooReader:
    """A session with ZooKeeper for reads. Enter it to connect."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self._timeout_s = settings.timeout_ms / 1000
        self._client = _new_client(settings)

    def __enter__(self) -> Self:
        """Connect. Raise ZooKeeperError if that fails, or if there is no chroot."""
        servers = ",".join(self._settings.address.servers)
        try:
            self._client.start(timeout=self._timeout_s)
        except Exception as error:
            raise ZooKeeperError(
                f"ZooKeeper at {servers} did not accept a session within {self._timeout_s:g} s: is it running, and is"
                f" this its client port{' with TLS' if self._settings.tls else ''}?"
            ) from error
        try:
            root = self._settings.address.path("/")
            self._result(root, self._client.sync_async(root))
            if self._result(root, self._client.exists_async(root)) is None:
                raise ZooKeeperError(f"ZooKeeper at {servers} has no znode {root}: the chroot is another one")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()

    def read(self, paths: Sequence[str]) -> Iterator[Znode | None]:
        for found in self._pipelined(paths, self._client.get_async):
            if found is None:
                yield None
            else:
                data, stat = found
                yield Znode(data or b"", stat.version, stat.numChildren)

    def list_children(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Raise ZnodeError if a znode has more children than a cluster can have."""
        for path, stat in zip(paths, self._pipelined(paths, self._client.exists_async), strict=True):
            if stat is not None and stat.numChildren > MAX_CHILDREN:
                raise ZnodeError(
                    f"znode {path} has {stat.numChildren:,} children, and at most {MAX_CHILDREN:,} are read: Kafka did"
                    " not write them"
                )
        for names in self._pipelined(paths, self._client.get_children_async):
            yield tuple(sorted(names or ()))

    def _pipelined(self, paths: Sequence[str], request: Callable[[str], Any]) -> Iterator[Any]:
        """Yield the result for each path, or None if the znode is missing."""
        absolute = [self._settings.address.path(path) for path in paths]
        waiting: list[tuple[str, Any]] = []
        for path in absolute:
            waiting.append((path, request(path)))
            if len(waiting) == _PIPELINED:
                yield from (self._result(*one) for one in waiting)
                waiting = []
        yield from (self._result(*one) for one in waiting)

    def _result(self, path: str, pending: Any) -> Any:
        """Return the result, or None if the znode is missing. Raise ZooKeeperError for any other failure."""
        from kazoo import exceptions
        from kazoo.handlers.threading import KazooTimeoutError

        servers = ",".join(self._settings.address.servers)
        try:
            return pending.get(timeout=self._timeout_s)
        except exceptions.NoNodeError:
            return None
        except exceptions.NoAuthError:
            raise ZooKeeperError(
                f"ZooKeeper at {servers} does not let this client read {path}: its ACL is for the brokers"
                " (zookeeper.set.acl). Let everybody read it for the time of the import (zookeeper-security-migration"
                " --zookeeper.acl=unsecure)"
            ) from None
        except KazooTimeoutError:
            raise ZooKeeperError(
                f"ZooKeeper at {servers} did not respond to a read of {path} within {self._timeout_s:g} s"
            ) from None
        except (exceptions.KazooException, exceptions.ZookeeperError) as error:
            raise ZooKeeperError(
                f"ZooKeeper at {servers}: a read of {path} failed ({type(error).__name__}). Nothing was written; run"
                " the command again"
            ) from error


def require_kazoo(wanted: str) -> None:
    """Raise ConfigError if kazoo is not installed. ``wanted`` is the option or the key that needs it."""
    try:
        import kazoo.client  # noqa: F401
    except ImportError:
        raise ConfigError(f"{wanted} needs the library kazoo: {_INSTALL}") from None


def _new_client(settings: ZooKeeperSettings) -> Any:
    """Return a client of kazoo that refuses every request but reads. Raise ConfigError if kazoo is not installed."""
    require_kazoo("--zookeeper")
    from kazoo.client import KazooClient
    from kazoo.protocol.serialization import Exists, GetChildren, GetChildren2, GetData, Sync

    from tidelog.server.metadata.zookeeper.kazoo_connection import client_options

    reads = (Exists, GetChildren, GetChildren2, GetData, Sync)

    class ReadingClient(KazooClient):  # type: ignore[misc]
        def _call(self, request: Any, async_object: Any) -> Any:
            if not isinstance(request, reads):
                raise ReadOnlyError(f"ZooKeeper is only read, and a {type(request).__name__} would change it")
            return super()._call(request, async_object)

    return ReadingClient(**client_options(settings, settings.timeout_ms))
