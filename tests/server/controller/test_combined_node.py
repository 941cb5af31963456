"""A node with both roles as the controller of other brokers: its listener, and its own broker among the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from server.controller.controller_harness import ControllerHome, RemoteBroker
from server.harness import BrokerHome, WireClient
from tidelog.model import DirectoryError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.start_settings import load_start_config, opens_controller
from tidelog.testing import Broker
from tidelog.testing.broker.kept_port import keep_port


class CombinedHome(BrokerHome):
    """Broker 1 with an open controller's listener, in the shape that ``RemoteBroker`` needs."""

    def __init__(self, directory: Path) -> None:
        self.controller_place = keep_port()
        self.controller_port: int = self.controller_place.getsockname()[1]
        super().__init__(directory)
        self.configs["broker.session.timeout.ms"] = "700"
        self.configs["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        self.configs["listeners"] = (
            f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://127.0.0.1:{self.controller_port}"
        )

    def client(self, **options: Any) -> WireClient:
        return WireClient(self.controller_port, **options)

    @property
    def node(self) -> Any:
        return self.server

    @property
    def cluster_id(self) -> str:
        return self.server.metadata.image.cluster_id

    @property
    def end_offset(self) -> int:
        return self.call(lambda: self.server.quorum_controller.quorum.high_watermark)


@pytest.fixture
def combined(tmp_path: Path) -> Iterator[CombinedHome]:
    with CombinedHome(tmp_path / "data") as home:
        yield home
    home.controller_place.close()


def remote(home: CombinedHome, number: int) -> RemoteBroker:
    return RemoteBroker(cast(ControllerHome, home), number)


def test_a_second_broker_joins_and_the_first_stays(combined: CombinedHome) -> None:
    with remote(combined, 2) as broker:
        broker.join()
        assert set(combined.server.metadata.image.brokers) == {1, 2}
        # The remote broker falls silent, and the one of this process never sends heartbeats.
        combined.wait_for(lambda: combined.server.metadata.image.brokers[2].is_fenced)
        assert not combined.server.metadata.image.brokers[1].is_fenced


def test_the_id_of_the_nodes_own_broker_is_taken(combined: CombinedHome) -> None:
    with remote(combined, 1) as double:
        assert double.register().error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        response = double.client.call(ApiKey.UNREGISTER_BROKER, broker_id=1)
        assert response.error_code == ErrorCode.INVALID_REQUEST


def test_its_directory_serves_again_with_other_brokers_registered(combined: CombinedHome) -> None:
    with remote(combined, 2) as broker:
        broker.join()
    combined.restart()
    assert set(combined.server.metadata.image.brokers) == {1, 2}
    with pytest.raises(DirectoryError, match="cannot reach this node's controller"):
        combined.restart({"listeners": f"PLAINTEXT://{combined.bootstrap_servers}"})


def test_the_embedded_default_opens_no_controllers_port() -> None:
    with Broker() as broker:
        assert [listener.endpoint.name for listener in broker.server.listeners] == ["PLAINTEXT"]
        assert not broker.server.accepts_brokers


@pytest.mark.parametrize(
    ("overrides", "opens"),
    [
        ({}, False),
        ({"listeners": "PLAINTEXT://localhost:9092"}, False),
        ({"listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"}, True),
        ({"listeners": "A://localhost:1,C://localhost:2", "controller.listener.names": "C"}, True),
    ],
)
def test_only_a_listed_controllers_listener_is_opened(tmp_path: Path, overrides: dict[str, str], opens: bool) -> None:
    assert opens_controller(None, overrides) is opens
    load_start_config(None, overrides)
    assert opens_controller(tmp_path / "server.properties", {})
