"""The options of a stream: a read's options and a batch's limits, without options unfit for streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.model import ConfigError
from tidelog.spark.read.options import ReadOptions, Use
from tidelog.spark.schema import Mode
from tidelog.spark.stream.trigger_limits import TriggerLimits


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
