"""Several brokers in this process, with real sockets between them, under the controller of the first one.

A ``JoinedHome`` is a further broker. It runs on the event loop of the ``BrokerHome`` with the controller, and both see
one image of the cluster metadata. So a change reaches all brokers in the same step, and no test waits for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from server.harness import BrokerHome
from tidelog.config.broker_config import BrokerConfig
from tidelog.server.broker import Broker as Server
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata, ClusterMetadataSetup
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories, metadata_directory_of


class SharedMetadata(ClusterMetadata):
    """The metadata of a further broker: the store is the controller's, and the node id is the broker's own."""

    def __init__(self, setup: ClusterMetadataSetup, controller: ClusterMetadata) -> None:
        super().__init__(setup)
        self._store = controller._store
        self._settings = controller._settings

    def format(self) -> None:
        request = FormatRequest(
            node_id=self._setup.node_id,
            directories=self._setup.directories,
            metadata_directory=metadata_directory_of(self._setup.config),
            controller=None,
            cluster_id=self.image.cluster_id,
        )
        format_directories(self._setup.fs, request, self._setup.clock)

    def load(self) -> None:
        """Load nothing: the image is the controller's."""

    async def start(self) -> None:
        """Start nothing: the controller runs."""

    async def close(self) -> None:
        """Close nothing: the controller goes on."""


class JoinedHome(BrokerHome):
    """A broker under the controller of ``first``, which must run."""

    def __init__(self, directory: Path, first: BrokerHome, node_id: int) -> None:
        super().__init__(directory, node_id=str(node_id))
        self._thread.stop()
        self._thread = first._thread
        self._first = first

    def close(self) -> None:
        """Stop for good. The loop is the first broker's."""
        try:
            self.stop()
        finally:
            self.release()

    def _made(self) -> Server:
        config = BrokerConfig.load(overrides=self._settings)
        return _JoinedServer(config, self._dispatcher, fs=self._files, controller=self._first.server.quorum_controller)


class _JoinedServer(Server):
    def __init__(self, *arguments: object, controller: ClusterMetadata, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type] # passed through
        self._cluster = controller

    def _made_metadata(self, paths: list[Path]) -> ClusterMetadata:
        self.controller = self.quorum_controller = SharedMetadata(
            ClusterMetadataSetup(
                fs=self.fs,
                config=self.config,
                node_id=self.node_id,
                directories=paths,
                clock=self.clock,
                scheduler=self.scheduler,
                in_thread=self.in_thread,
                on_failure=lambda _error: None,
            ),
            self._cluster,
        )
        return self.quorum_controller


@contextmanager
def running_brokers(
    directory: Path, settings: Mapping[str, str], *, count: int = 2, of_further: Mapping[str, str] | None = None
) -> Iterator[list[BrokerHome]]:
    """Run brokers 1 to ``count``. The first one has the controller, and must not stop before the others.

    The settings are Kafka's keys with ``_`` for ``.``. ``of_further`` are those of the brokers from 2 on.
    """
    with ExitStack() as stack:
        first = BrokerHome(directory / "1")
        first.configs |= _keys(settings)
        homes = [stack.enter_context(first)]
        for node_id in range(2, count + 1):
            home = JoinedHome(directory / str(node_id), first, node_id)
            home.configs |= _keys({**settings, **(of_further or {})})
            homes.append(stack.enter_context(home))
        yield homes


def _keys(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}
