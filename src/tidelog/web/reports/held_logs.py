"""The names of the partitions' directories in all given log directories, for links that always have a target.

The names are listed once, so that a table with many rows does not list directories for each of them. Thread rule: any
thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.web import urls
from tidelog.web.sources import Sources


@dataclass(frozen=True, slots=True)
class HeldLogs:
    keys: Mapping[str, tuple[str, ...]]
    """The keys of the log directories that have a directory of that name."""
    topics: frozenset[str]

    @classmethod
    def of(cls, sources: Sources) -> HeldLogs:
        """List the given directories."""
        keys: dict[str, tuple[str, ...]] = {}
        for one in sources.log_dirs:
            for name in one.fs.list_directories(one.path):
                keys[name] = (*keys.get(name, ()), one.key)
        topics = {topic for name in keys if (topic := name.rpartition("-")[0]) and name.rpartition("-")[2].isdecimal()}
        return cls(keys, frozenset(topics))

    def has_topic(self, topic: str) -> bool:
        """Return True if a log directory has a live log of the topic."""
        return topic in self.topics

    def partition_url(self, name: str) -> str | None:
        """Return the URL of a partition's log, of the comparison of its logs if there are several, or None."""
        keys = self.keys.get(name, ())
        if len(keys) > 1:
            return urls.compare_url(name)
        return urls.log_url(keys[0], name) if keys else None
