"""The metadata log of a copy, written without a controller's rules: the source has decided everything already.

States: *new* -> ``format`` (in a background thread) -> ``load`` (the same; the directory is locked) -> ``start`` ->
``close``. A change is a list of records for the committed image. It is on the disk when ``change`` returns, and a
crash leaves all of its records or none. Thread rule: the event loop only, but for ``format`` and ``load``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

from tidelog.mirroring.target.target_settings import TargetSettings
from tidelog.model import TidelogError
from tidelog.runtime import Clock, Scheduler
from tidelog.runtime.executor import InThread
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.formatting import FormatRequest, format_directories
from tidelog.server.metadata.kraft.metadata_store import MetadataStore, StoreSetup
from tidelog.server.metadata.kraft.quorum import controller_endpoint
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import MetaProperties
from tidelog.storage.fs import FileSystem

Decide = Callable[[MetadataImage], Iterable[MetadataRecord]]
"""A pure function from the committed image to the records of a change."""


class TargetMetadata:
    def __init__(
        self,
        fs: FileSystem,
        settings: TargetSettings,
        *,
        clock: Clock,
        scheduler: Scheduler,
        in_thread: InThread,
        on_failure: Callable[[TidelogError], None],
    ) -> None:
        """Create the object without disk access. ``on_failure`` gets a failed write, after which no change works."""
        self._fs = fs
        self._settings = settings
        self._clock = clock
        self.properties: MetaProperties | None = None
        self._store = MetadataStore(
            StoreSetup(
                fs=fs,
                directory=settings.path,
                settings=ControllerSettings(node_id=settings.node_id, config=settings.config),
                static_voters=None,
                clock=clock,
                scheduler=scheduler,
                in_thread=in_thread,
                on_failure=on_failure,
            ),
            MetadataImage(),
        )

    def format(self) -> None:
        """Format the directory if it is new; see ``formatting``."""
        path = self._settings.path
        request = FormatRequest(
            node_id=self._settings.node_id,
            directories=(path,),
            metadata_directory=path,
            controller=controller_endpoint(self._settings.config),
            first_records=self._settings.first_records,
        )
        self.properties = format_directories(self._fs, request, self._clock)[path]
        self._store.image.cluster_id = self.properties.cluster_id or ""

    def load(self) -> None:
        """Load the metadata from the disk. Raise StorageError, CorruptRecordError or DirectoryError."""
        self._store.load()

    async def start(self) -> None:
        """Begin a new epoch. The metadata can be changed from then on."""
        await self._store.become_leader()

    async def close(self) -> None:
        """Close the log; idempotent."""
        await self._store.close()

    @property
    def image(self) -> MetadataImage:
        """The current image. Do not change it, and do not keep it over an ``await``."""
        return self._store.committed

    @property
    def directory_id(self) -> uuid.UUID:
        properties = self.properties
        assert properties is not None, "not formatted"
        assert properties.directory_id is not None, "a formatted directory has an id"
        return properties.directory_id

    def settings_of(self, topic: str) -> Mapping[str, str]:
        """Return the settings of a topic."""
        return self.image.settings_of(ResourceType.TOPIC, topic)

    async def change(self, decide: Decide) -> int:
        """Write the records of ``decide``, durably, and return their number. Raise StorageError or ApiError."""

        def decided() -> Decision[int]:
            records = list(decide(self._store.committed))
            return Decision(records, len(records))

        return await self._store.change(decided)
