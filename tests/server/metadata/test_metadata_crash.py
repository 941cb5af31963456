"""The metadata contains every acknowledged change after a power failure at any moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from server.metadata.metadata_harness import METADATA, MetadataHarness, create, run, setting, topic_resource
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.metadata.requests import NewPartitions
from tidelog.testing import SimulatedDisk

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "700",
    "metadata.max.retention.bytes": "2500",
    "internal.metadata.log.segment.bytes": "1200",
}
"""The settings make the controller write and delete snapshots during the test."""


@dataclass(frozen=True, slots=True)
class Known:
    """The acknowledged state."""

    topics: dict[str, int] = field(default_factory=dict)
    """The number of partitions by topic."""
    next_producer_id: int = 0
    runs: int = 0

    def check(self, image: MetadataImage, after: Known) -> None:
        """Check the image. ``after`` includes the change in progress, which may exist or not."""
        found = {name: len(topic.partitions) for name, topic in image.topics.items()}
        assert found in (self.topics, after.topics)
        assert image.next_producer_id in (self.next_producer_id, after.next_producer_id)


@dataclass(slots=True)
class Story:
    """``now`` is acknowledged. ``coming`` includes the requested change."""

    now: Known = Known()
    coming: Known = Known()

    def expect(self, **changes: object) -> None:
        self.coming = replace(self.now, **changes)  # type: ignore[arg-type]

    def told(self) -> None:
        self.now = self.coming


async def live(harness: MetadataHarness, story: Story) -> None:
    """Run twice with a clean shutdown, and make every kind of change."""
    for number in range(2):
        metadata = await harness.joined()
        story.expect(runs=number + 1)
        story.told()
        await change_everything(metadata, story, number)
        await harness.stop(metadata)


async def change_everything(metadata: ClusterMetadata, story: Story, number: int) -> None:
    name = f"topic-{number}"
    story.expect(topics={**story.now.topics, name: 2})
    await create(metadata, name, partitions=2)
    story.told()
    story.expect(topics={**story.now.topics, name: 3})
    await metadata.create_partitions([NewPartitions(topic=name, total=3)])
    story.told()
    await metadata.alter_configs({topic_resource(name): [setting("retention.ms", "5000")]})
    story.expect(next_producer_id=story.now.next_producer_id + 1000)
    await metadata.allocate_producer_ids()
    story.told()
    story.expect(topics={**story.now.topics, "gone": 1})
    await create(metadata, "gone")
    story.told()
    story.expect(topics={topic: count for topic, count in story.now.topics.items() if topic != "gone"})
    await metadata.delete_topics(["gone"])
    story.told()


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_that_was_told_is_lost(every: int) -> None:
    """Power fails before every ``every``-th call."""

    async def lived() -> None:
        disk, story = SimulatedDisk(), Story()
        found: list[tuple[SimulatedDisk, Known, Known]] = []

        def look(_call: object) -> None:
            found.append((disk.after_crash(len(found)), story.now, story.coming))

        disk.before_call = look
        await live(MetadataHarness(disk, SETTINGS), story)
        disk.before_call = None
        found.append((disk, story.now, story.now))
        assert len(found) > 100
        assert {".checkpoint", ".deleted"} <= {Path(name).suffix for name in disk.list_names(METADATA)}
        for survivor, now, coming in found[::-every]:
            await check_survivor(survivor, now, coming)

    async def check_survivor(survivor: SimulatedDisk, now: Known, coming: Known) -> None:
        harness = MetadataHarness(survivor, SETTINGS)
        metadata = await harness.started()
        now.check(metadata.image, coming)
        assert metadata.quorum.epoch > now.runs
        await harness.register(metadata)
        assert all(state.leader == 1 for _, _, state in metadata.image.partitions())
        await create(metadata, "another")
        image = metadata.image.copy()
        await metadata.close()
        again = await harness.started()
        assert again.image.topics.keys() == image.topics.keys()
        await again.close()

    run(lived)
