"""A directory on this machine's disk that a run of the metadata left, with any records that a test adds."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from server.metadata.metadata_harness import MetadataHarness, create, run
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.fs import LOCAL


def left(
    directory: Path, *records: MetadataRecord, settings: dict[str, str] | None = None, topic: str = "there"
) -> MetadataHarness:
    """Create a topic, write ``records``, and close the metadata."""
    harness = MetadataHarness(LOCAL, {"log.dirs": str(directory), **(settings or {})})

    async def work() -> None:
        metadata = await harness.started()
        await harness.register(metadata)
        await create(metadata, topic)
        for record in records:
            await metadata._store.change(partial(Decision, [record], None))
        await metadata.close()

    run(work)
    return harness
