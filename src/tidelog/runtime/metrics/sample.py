"""A metric's values at the moment of a report, named like the attributes of Kafka's MBeans.

=============  ====================================================================================================
kind           values
=============  ====================================================================================================
GAUGE          Value
METER          Count, MeanRate, OneMinuteRate, FiveMinuteRate, FifteenMinuteRate (events a second)
HISTOGRAM      Count, Min, Max, Mean, StdDev, 50thPercentile, 75th…, 95th…, 98th…, 99th…, 999thPercentile
TIMER          the values of METER and HISTOGRAM; durations in ms
=============  ====================================================================================================

Source: Yammer metrics 2.2, its ``JmxReporter``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from tidelog.runtime.metrics.metric_name import MetricName


class MetricKind(Enum):
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"
    TIMER = "timer"


class Sample(NamedTuple):
    name: MetricName
    kind: MetricKind
    values: Mapping[str, int | float]

    @classmethod
    def gauge(cls, name: MetricName, value: int | float) -> Sample:
        return cls(name, MetricKind.GAUGE, {"Value": value})
