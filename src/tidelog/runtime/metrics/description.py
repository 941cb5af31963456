"""The description of a metric for people: a row of docs/metrics.md.

A module with metrics describes each of them once, and makes their names from the descriptions. Thread rule: any thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.runtime.metrics.metric_name import MetricName
from tidelog.runtime.metrics.sample import MetricKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDescription:
    group: str
    type: str
    name: str
    tags: tuple[str, ...] = ()
    """Tag keys, in Kafka's sequence."""
    kind: MetricKind
    unit: str
    """The unit of the value; for a meter, the counted events."""
    meaning: str
    """Sentences for people."""

    def named(self, *values: str) -> MetricName:
        """Return the name with a value for each tag. An empty value leaves the tag out."""
        return MetricName(self.group, self.type, self.name, tuple(zip(self.tags, values, strict=True)))


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """The metrics of one group and type. The methods describe a metric."""

    group: str
    type: str
    tags: tuple[str, ...] = ()
    """The tags of all these metrics. A metric's own tags come after them."""
    described: list[MetricDescription] = field(default_factory=list, compare=False)
    """The metrics that were described by this object, in the same sequence."""

    def gauge(self, name: str, unit: str, meaning: str, *tags: str) -> MetricDescription:
        return self._described(MetricKind.GAUGE, name, unit, meaning, tags)

    def meter(self, name: str, unit: str, meaning: str, *tags: str) -> MetricDescription:
        return self._described(MetricKind.METER, name, unit, meaning, tags)

    def histogram(self, name: str, unit: str, meaning: str, *tags: str) -> MetricDescription:
        return self._described(MetricKind.HISTOGRAM, name, unit, meaning, tags)

    def timer(self, name: str, meaning: str, *tags: str) -> MetricDescription:
        """Describe a timer in ms."""
        return self._described(MetricKind.TIMER, name, "ms", meaning, tags)

    def _described(
        self, kind: MetricKind, name: str, unit: str, meaning: str, tags: tuple[str, ...]
    ) -> MetricDescription:
        every = *self.tags, *tags
        description = MetricDescription(
            group=self.group, type=self.type, name=name, tags=every, kind=kind, unit=unit, meaning=meaning
        )
        self.described.append(description)
        return description
