"""What a metric is, for people: a row of docs/metrics.md. Who has metrics describes each of them once, and takes its
names from there.

Called by: whoever has metrics, the page's generator. Thread rule: values.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.runtime.metrics.metric_name import MetricName
from tidelog.runtime.metrics.sample import MetricKind


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDescription:
    group: str
    type: str
    name: str
    tags: tuple[str, ...] = ()
    """Keys, in Kafka's order."""
    kind: MetricKind
    unit: str
    """Of its value; of a meter what is counted."""
    meaning: str
    """A sentence, or several."""

    def named(self, *values: str) -> MetricName:
        """With a value for each tag; an empty one leaves the tag out."""
        return MetricName(self.group, self.type, self.name, tuple(zip(self.tags, values, strict=True)))


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """The metrics of one group and type: describes each of them."""

    group: str
    type: str
    tags: tuple[str, ...] = ()
    """That all of them have; those of one metric alone come after them."""

    def gauge(self, name: str, unit: str, meaning: str, *tags: str) -> MetricDescription:
        return self._described(MetricKind.GAUGE, name, unit, meaning, tags)

    def meter(self, name: str, unit: str, meaning: str, *tags: str) -> MetricDescription:
        return self._described(MetricKind.METER, name, unit, meaning, tags)

    def timer(self, name: str, meaning: str, *tags: str) -> MetricDescription:
        """In ms."""
        return self._described(MetricKind.TIMER, name, "ms", meaning, tags)

    def _described(
        self, kind: MetricKind, name: str, unit: str, meaning: str, tags: tuple[str, ...]
    ) -> MetricDescription:
        return MetricDescription(
            group=self.group,
            type=self.type,
            name=name,
            tags=(*self.tags, *tags),
            kind=kind,
            unit=unit,
            meaning=meaning,
        )
