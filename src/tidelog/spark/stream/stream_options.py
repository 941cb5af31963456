"""The options of a stream: those of a read that fit a stream, and three that reduce or delay a batch.

========================  ==========================================================================================
``maxOffsetsPerTrigger``  at most about this many offsets, shared in proportion to each partition's available ones; a
                          share is rounded down, but a share below 1 up to 1, so that small partitions do not starve
``minOffsetsPerTrigger``  no batch while fewer offsets are available
``maxTriggerDelay``       a batch even so, once this time has passed since the last; the first of a run never waits
========================  ==========================================================================================

If both limits are set, the minimum is checked first. ``Trigger.Once`` ignores all limits. ``Trigger.AvailableNow``
obeys the maximum, but never waits for the minimum. The functions are pure, except for the time of the last batch in a
``Pacing``. Thread rule: one thread. Source: Spark's ``KafkaMicroBatchStream``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.model import ConfigError
from tidelog.spark.read.option_text import Given, parse_positive, parse_time_ms
from tidelog.spark.read.options import ReadOptions, Use
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.stream.stream_offsets import Offsets

DEFAULT_MAX_DELAY_MS = 15 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> TriggerLimits:
        """Parse options, with names in any case. ConfigError names the option."""
        given: Given = {name.lower(): value for name, value in options.items()}
        most = parse_positive(given, "maxOffsetsPerTrigger")
        least = parse_positive(given, "minOffsetsPerTrigger")
        if most is not None and least is not None and least > most:
            raise ConfigError(f"Option 'minOffsetsPerTrigger' ({least}) is higher than 'maxOffsetsPerTrigger' ({most})")
        delay = given.get("maxtriggerdelay")
        delay_ms = DEFAULT_MAX_DELAY_MS if delay is None else parse_time_ms(delay, "maxTriggerDelay")
        return cls(max_offsets=most, min_offsets=least, max_delay_ms=delay_ms)


class Pacing:
    """The decision to wait for more offsets. Its state is the time of the last batch, None at first."""

    def __init__(self, limits: TriggerLimits) -> None:
        self._limits = limits
        self._last_ms: int | None = None

    def waits(self, start: Offsets, latest: Offsets, now_ms: int) -> bool:
        """Return True if the batch has to wait, else count it as started at ``now_ms``. Call it once per trigger."""
        least = self._limits.min_offsets
        if least is None:
            return False
        is_overdue = self._last_ms is None or now_ms - self._last_ms >= self._limits.max_delay_ms
        waiting = sum(offset - start.get(partition, 0) for partition, offset in latest.items())
        if not is_overdue and waiting < least:
            return True
        self._last_ms = now_ms
        return False


def shared_out(most: int, start: Offsets, latest: Offsets) -> Offsets:
    """Return the end of a batch of about ``most`` offsets between ``start`` and ``latest``.

    ``start`` has every partition of ``latest``. A new partition starts at its log start.
    """
    waiting = {partition: max(0, end - start[partition]) for partition, end in latest.items()}
    total = sum(waiting.values())
    if total == 0:
        return latest
    ends = {}
    for partition, end in latest.items():
        share = most * (waiting[partition] / total)
        whole = math.ceil(share) if share < 1 else math.floor(share)
        ends[partition] = min(end, start[partition] + whole) if waiting[partition] else end
    return ends


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    read: ReadOptions
    limits: TriggerLimits

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> StreamOptions:
        """Parse options, with names in any case. ConfigError names the option, the value and the expected form."""
        read = ReadOptions.parse(options, Use.STREAM)
        if read.mode is not Mode.RECORDS:
            raise ConfigError(f"Option 'mode' can't be {read.mode} in a stream: a stream reads only records")
        return cls(read=read, limits=TriggerLimits.parse(options))
