"""Rounds over the source's metadata: topics, partitions, leaders, settings and ACLs reach the copy.

=============================  =======================================================================================
the source has                 a round
=============================  =======================================================================================
a new topic of the pattern     takes it over, and copies its partitions
new partitions                 the same
a new leader or leader epoch   writes the epoch into the copy's metadata, then follows
another topic of a name        ends the old copy, which is set aside or deleted by choice, and begins a new one
a topic no more                ends its copying, after a second look; deletes the copy only by choice
other settings or ACLs         takes them over, at most every ``settings_interval_ms``
=============================  =======================================================================================

A run that does not follow looks only for leaders of the topics that it began with. Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.mirroring.planning.options import MirrorOptions
from tidelog.mirroring.run.copying import Copying
from tidelog.mirroring.run.partition_copy import PartitionCopy
from tidelog.mirroring.source.source_cluster import Denied, SourceCluster, readable
from tidelog.mirroring.source.source_topics import SourceTopic, SourceTopics, TopicSelection
from tidelog.mirroring.target.copied_metadata import CopiedTopic
from tidelog.mirroring.target.copied_settings import CopiedSettings
from tidelog.mirroring.target.mirror_directory import MirrorDirectory
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.replication.follower_events import FollowedLeader


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsSetup:
    options: MirrorOptions
    selection: TopicSelection
    source: SourceCluster
    directory: MirrorDirectory
    copying: Copying


class TopicRounds:
    def __init__(self, setup: RoundsSetup) -> None:
        self._setup = setup
        self._unreadable: frozenset[str] = frozenset()
        self._missing: set[str] = set()
        """The topics that the last round did not find."""
        self._settings_due_ms = 0
        self._denied: dict[str, str] = {}
        self._changed_settings: dict[str, Sequence[str]] = {}
        """The notes about the settings of each topic."""

    @property
    def notes(self) -> list[str]:
        """Sentences about the parts of the source that the copy lacks."""
        left_out = [f"Topic {name} is left out: this client may not read it." for name in sorted(self._unreadable)]
        if GROUP_METADATA_TOPIC in self._unreadable:
            left_out.append("Committed offsets of groups come from their coordinators instead.")
        left_out += [f"The {part} of the source are not copied: {why}." for part, why in self._denied.items()]
        left_out += [
            f"The copy of {copy.partition} was not shut down cleanly. It begins at offset {missing.stop}, but the"
            f" source's log begins at {missing.start}. The copy's retention has removed the records in between, or its"
            " disk has lost them."
            for copy in self._setup.copying.copies.values()
            if (missing := copy.missing_first) is not None
        ]
        return left_out + [f"Topic {name}: {note}." for name, notes in self._changed_settings.items() for note in notes]

    async def begin(self, topics: SourceTopics) -> None:
        """Take over all topics, with settings and ACLs."""
        setup = self._setup
        self._unreadable = await setup.source.unreadable(topics.topics)
        wanted = {name: topic for name, topic in topics.topics.items() if name not in self._unreadable}
        await self._take_over(wanted, await self._settings(wanted))
        await self._take_over_acls()
        self._settings_due_ms = setup.copying.now_ms + setup.options.settings_interval_ms
        await self._follow(wanted)

    async def refresh_leaders(self) -> None:
        """Look for new leaders of the topics that are copied."""
        topics = await self._setup.source.topics(self._setup.selection)
        known = self._setup.copying.ids
        same = {name: topic for name, topic in topics.topics.items() if known.get(name) == topic.topic_id}
        for name in known.keys() - same.keys():
            for copy in self._copies_of(name):
                copy.error = copy.error or TidelogError(f"{copy.partition}: the source has deleted the topic")
        await self._take_over(same, {})
        await self._follow(same, adds=False)
        self._setup.copying.has_changed.set()

    async def refresh(self) -> None:
        """Look for every change of the source."""
        setup = self._setup
        topics = (await setup.source.topics(setup.selection)).topics
        fresh = [name for name, topic in topics.items() if setup.copying.ids.get(name) != topic.topic_id]
        if fresh or self._unreadable:
            self._unreadable = await setup.source.unreadable({*fresh, *(self._unreadable & topics.keys())})
        wanted = {name: topic for name, topic in topics.items() if name not in self._unreadable}
        await self._remove_missing(topics.keys())
        for name in wanted.keys() & set(fresh):
            if name in setup.directory.image.topics:
                setup.copying.setup.report(f"Topic {name} was deleted and made again at the source: a new copy begins")
                setup.copying.remove(name)
        await self._refresh_settings(wanted, fresh)
        await self._follow(wanted)

    # --- inside ---

    async def _refresh_settings(self, wanted: Mapping[str, SourceTopic], fresh: Iterable[str]) -> None:
        now_ms = self._setup.copying.now_ms
        is_due = now_ms >= self._settings_due_ms
        names = wanted.keys() if is_due else wanted.keys() & set(fresh)
        settings = await self._settings(names) if names else {}
        await self._take_over(wanted, settings)
        if is_due:
            await self._take_over_acls()
            self._settings_due_ms = now_ms + self._setup.options.settings_interval_ms

    async def _settings(self, names: Iterable[str]) -> dict[str, Mapping[str, str] | None]:
        found = await self._setup.source.settings(names)
        denied = {name: one for name, one in found.items() if isinstance(one, Denied)}
        if denied:
            name, first = next(iter(denied.items()))
            self._denied["settings"] = f"{first.reason} ({name})"
        else:
            self._denied.pop("settings", None)
        return {name: self._fitting(name, readable(found, name)) for name in found}

    def _fitting(self, topic: str, settings: Mapping[str, str] | None) -> Mapping[str, str] | None:
        if settings is None:
            return None
        copied = CopiedSettings.of(settings)
        self._changed_settings[topic] = copied.notes
        return copied.texts

    async def _take_over(
        self, topics: Mapping[str, SourceTopic], settings: Mapping[str, Mapping[str, str] | None]
    ) -> None:
        copied = [
            CopiedTopic(
                name=name,
                topic_id=topic.topic_id,
                epochs={number: max(0, one.leader_epoch) for number, one in sorted(topic.partitions.items())},
                settings=settings.get(name),
            )
            for name, topic in topics.items()
        ]
        await self._setup.directory.take_over(copied, deletes_old=self._setup.options.deletes_old)

    async def _take_over_acls(self) -> None:
        acls = await self._setup.source.acls()
        if isinstance(acls, Denied):
            self._denied["ACLs"] = acls.reason
        else:
            self._denied.pop("ACLs", None)
            await self._setup.directory.replace_acls(acls)

    async def _remove_missing(self, found: Collection[str]) -> None:
        """End the copying of topics that two rounds did not find, and whose names the source does not know."""
        setup = self._setup
        missing = setup.copying.ids.keys() - set(found)
        for name in sorted(missing & self._missing):
            if name in (await setup.source.client.refresh({name})).topics:
                continue  # this client may not describe it any more
            setup.copying.remove(name)
            kept = "its copy is deleted" if setup.options.deletes_old else "its copy stays as it is"
            setup.copying.setup.report(f"Topic {name} was deleted at the source: {kept}")
            if setup.options.deletes_old:
                await setup.directory.remove([name], deletes_old=True)
        self._missing = missing

    async def _follow(self, topics: Mapping[str, SourceTopic], *, adds: bool = True) -> None:
        leaders: dict[TopicPartition, FollowedLeader] = {}
        for name, topic in topics.items():
            for number, found in topic.partitions.items():
                partition = TopicPartition(name, number)
                if partition not in self._setup.copying.copies:
                    if not adds:
                        continue
                    self._add(partition, topic)
                leaders[partition] = FollowedLeader(
                    leader_id=found.leader_id, leader_epoch=found.leader_epoch, topic_id=topic.topic_id
                )
        await self._setup.copying.follow(leaders)

    def _add(self, partition: TopicPartition, topic: SourceTopic) -> None:
        setup = self._setup
        copy = PartitionCopy(
            partition,
            setup.directory.log(partition),
            is_exact=topic.is_coordinators,
            backoff_ms=setup.options.retry_backoff_ms,
        )
        if setup.options.follows and not topic.is_coordinators:
            copy.bound = None
        setup.copying.add(copy, topic.topic_id)

    def _copies_of(self, topic: str) -> list[PartitionCopy]:
        return [copy for partition, copy in self._setup.copying.copies.items() if partition.topic == topic]
