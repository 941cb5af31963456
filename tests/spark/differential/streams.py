"""The topics of a mix and its two queries, one for each source with a checkpoint of its own."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from spark.differential.both_sources import BothSources, Outcome, Source
from spark.differential.scene import Scene
from spark.differential.stream_mixes import SIZES, TOPIC, Between, StreamMix

_numbers = count(1)


class Streams:
    def __init__(self, scene: Scene, both: BothSources, mix: StreamMix, checkpoints: Path) -> None:
        self._scene = scene
        self._both = both
        self._mix = mix
        self._checkpoints = checkpoints
        name = f"stream-{next(_numbers)}"
        self.topics = (
            [name, f"{name}-too"] if mix.between in (Between.DELETED_TOPIC, Between.DELETED_TOPICS) else [name]
        )
        for topic in self.topics:
            scene.create(topic, len(SIZES), {})
            scene.append(topic, SIZES)
        scene.settle()

    def run(self, source: Source, *, query: Source | None = None) -> Outcome:
        """Run the source's query, or let this source continue the other's ``query``."""
        options = {key: value.replace(TOPIC, self.topics[0]) for key, value in self._mix.options.items()}
        checkpoint = self.checkpoint(query or source)
        return self._both.stream(source, options, checkpoint, available_now=self._mix.available_now)

    def checkpoint(self, query: Source) -> Path:
        return self._checkpoints / query

    def change(self) -> None:
        """Make the mix's change between two runs."""
        topic, partitions = self.topics[0], len(SIZES)
        match self._mix.between:
            case Between.DELETED_TOPIC | Between.DELETED_TOPICS as between:
                for gone in self.topics[1:] if between is Between.DELETED_TOPIC else self.topics:
                    self._scene.delete(gone)
                return
            case Between.NEW_TOPIC:
                self._scene.delete(topic)
                self._scene.create(topic, partitions, {})
            case Between.NEW_PARTITION:
                partitions += 1
                self._scene.add_partitions(topic, partitions)
        self._scene.append(topic, [10] * partitions)
        if self._mix.between is Between.DELETED_RECORDS:
            for partition, size in enumerate(SIZES):
                self._scene.broker.delete_records(topic, partition, size + 5)
        self._scene.settle()
