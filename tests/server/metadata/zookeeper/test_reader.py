"""The reader of a chroot, and the client below it with servers that are away, silent or strange."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from server.metadata.zookeeper.znode_trees import MappingReader, captured_mapping, captured_tree
from tidelog.model import ConfigError, ReadOnlyError, ZnodeError, ZooKeeperError
from tidelog.server.metadata.zookeeper import chroot_reader, kazoo_client
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.chroot_reader import read_chroot, read_settings
from tidelog.server.metadata.zookeeper.kazoo_client import KazooReader
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper.translation import translate, translate_configs
from tidelog.server.metadata.zookeeper.znode_tree import Znode


class TestChroot:
    def test_all_that_is_translated_is_read(self) -> None:
        """The translation of the read znodes equals that of all znodes."""
        changes = {
            "/config/groups/g": {},
            "/delegation_token/tokens/t": b"",
            "/consumers/c/offsets/t/0": b"1",
            "/hbase": b"",
            "/admin/delete_topics/empty": b"",
            "/admin/reassign_partitions": b"{}",
            "/migration": b"{}",
        }
        everything = captured_tree(changes)
        reader = MappingReader(everything.znodes)
        assert translate(read_chroot(reader)) == translate(everything)
        assert len(set(reader.paths)) == len(reader.paths)
        assert not [path for path in reader.paths if path.startswith(("/config/changes/", "/consumers/"))]

    def test_settings_alone(self) -> None:
        reader = MappingReader(captured_mapping())
        assert translate_configs(read_settings(reader)) == translate_configs(captured_tree())
        assert all(path.startswith(("/config/topics/", "/config/brokers/", "/cluster/")) for path in reader.paths)

    def test_a_chroot_that_is_empty(self) -> None:
        cluster = translate(read_chroot(MappingReader({"/": Znode()})))
        assert cluster.cluster_id is None
        assert not cluster.topics

    def test_too_many_partitions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chroot_reader, "MAX_CHILDREN", 19)
        with pytest.raises(ZnodeError, match=r"znode /brokers/topics/orders: .* have 32 partitions, and at most 19"):
            read_chroot(MappingReader(captured_mapping()))


class TestAddress:
    @pytest.mark.parametrize(
        ("text", "servers", "chroot"),
        [
            ("localhost", ("localhost:2181",), ""),
            ("a:1,b:2/kafka/x/", ("a:1", "b:2"), "/kafka/x"),
            (" a , b/ ", ("a:2181", "b:2181"), ""),
            ("[::1]:2181/k", ("[::1]:2181",), "/k"),
        ],
    )
    def test_valid(self, text: str, servers: tuple[str, ...], chroot: str) -> None:
        assert ZooKeeperAddress.parse(text) == ZooKeeperAddress(servers, chroot)

    @pytest.mark.parametrize(
        "text", ["", "/kafka", "a:b", "a:0", "a:70000", "a,,b", "a b", "a/x//y", "a/../b", "a/\x00"]
    )
    def test_not_valid(self, text: str) -> None:
        with pytest.raises(ConfigError, match="ZooKeeper address"):
            ZooKeeperAddress.parse(text)

    def test_paths(self) -> None:
        assert ZooKeeperAddress.parse("a/k").path("/") == "/k"
        assert ZooKeeperAddress.parse("a/k").path("/brokers") == "/k/brokers"
        assert ZooKeeperAddress.parse("a").path("/") == "/"


@contextmanager
def server(answer: bytes | None) -> Iterator[str]:
    """Accept connections. Send ``answer`` and close them, or stay silent with None."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        stopped = threading.Event()
        open_connections = []

        def accept() -> None:
            while not stopped.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                if answer is None:
                    open_connections.append(connection)
                    continue
                with connection:
                    connection.sendall(answer)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stopped.set()
            thread.join()
            for connection in open_connections:
                connection.close()


def reader_of(address: str) -> KazooReader:
    return KazooReader(ZooKeeperSettings(address=ZooKeeperAddress.parse(address), timeout_ms=700))


class TestClient:
    @pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(200), b"\xff" * 200])
    def test_a_server_that_is_not_zookeeper(self, answer: bytes | None) -> None:
        started = time.monotonic()
        with server(answer) as address, pytest.raises(ZooKeeperError, match=f"ZooKeeper at {address} did not accept"):
            reader_of(address).__enter__()
        assert time.monotonic() - started < 60

    def test_a_server_that_is_away(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(ZooKeeperError, match=r"did not accept a session within 0.7 s: is it running"):
            reader_of(address).__enter__()

    def test_a_write_is_refused_before_it_is_sent(self) -> None:
        client = reader_of("127.0.0.1:1")._client
        writes: list[Callable[[], object]] = [
            lambda: client.create("/x", b""),
            lambda: client.set("/x", b""),
            lambda: client.delete("/x"),
            lambda: client.set_acls("/x", []),
            lambda: client.transaction().commit(),
            lambda: client.add_auth("digest", "a:b"),
        ]
        for write in writes:
            with pytest.raises(Exception, match=r".*") as raised:
                write()
            assert raised.type is ReadOnlyError
            assert "ZooKeeper is only read" in str(raised.value)
        client.close()

    def test_kazoo_is_named_if_it_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "kazoo.client", None)
        with pytest.raises(ConfigError, match=r"needs the library kazoo: pip install 'tidelog\[zookeeper\]'"):
            reader_of("127.0.0.1:1")
        assert kazoo_client.MAX_CHILDREN < 1_000_000
