"""Combinations of options for both sources, and the result of each: rows, or the words of an error.

A mix without words gives the same rows from both sources. Words are a pattern for each source's own error; the cause is
the same for both. If the sources differ on purpose, ``differs`` names a row of docs/spark.md's table, and only the
source that fails has words.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark.differential.scene import BEGIN_MS


class Cause(enum.Enum):
    """The reason for an error."""

    OPTION = "an option's text or a contradiction between options"
    MISSING = "a topic that is not there"
    LOSS = "records that are not there"
    TOO_LATE = "no record at or after a starting timestamp"


@dataclass(frozen=True, slots=True)
class Mix:
    options: Mapping[str, str]
    cause: Cause | None = None
    kafka: str = ""
    tidelog: str = ""
    differs: str = ""


def js(**topics: object) -> str:
    return json.dumps({name.replace("__", "."): value for name, value in topics.items()})


def refused(cause: Cause, kafka: str, tidelog: str, **options: str) -> Mix:
    return Mix(named(options), cause, kafka, tidelog)


def rows(**options: str) -> Mix:
    return Mix(named(options))


def differing(row: str, *, kafka: str = "", tidelog: str = "", **options: str) -> Mix:
    return Mix(named(options), None, kafka, tidelog, row)


def named(options: Mapping[str, str]) -> dict[str, str]:
    """Convert keyword arguments to options: ``_`` stands for a dot."""
    return {name.replace("_", "."): value for name, value in options.items()}


LATE = str(BEGIN_MS + 10**9)


def at(second: float) -> int:
    return BEGIN_MS + int(1000 * second)


MIXES: Mapping[str, Mix] = {
    # Topics and partitions.
    "everything by a pattern": rows(subscribePattern=".*", includeHeaders="true"),
    "a pattern is looked for anywhere in a name": rows(subscribePattern="ates"),
    "internal topics are left out by being internal": rows(subscribePattern="__.*"),
    "keys and words in mixed case": rows(
        SUBSCRIBE="flights",
        StartingOffsets="EARLIEST",
        ENDINGoffsets="Latest",
        IncludeHeaders="True",
        FailOnDATALoss="FALSE",
    ),
    # Offsets.
    "between offsets": rows(
        subscribe="flights",
        startingOffsets=js(flights={"0": 37, "1": -2, "2": 0}),
        endingOffsets=js(flights={"0": -1, "1": 23, "2": -1}),
    ),
    "through the gaps that compaction left": rows(subscribe="compacted"),
    # Timestamps.
    "between two times, out of order": rows(
        assign=js(flights=[0]), startingTimestamp=str(at(11)), endingTimestamp=str(at(25))
    ),
    "times by partition": rows(
        subscribe="flights",
        startingOffsetsByTimestamp=js(flights={"0": at(5), "1": at(20), "2": 0}),
        endingOffsetsByTimestamp=js(flights={"0": at(33), "1": at(21), "2": 1}),
        startingOffsetsByTimestampStrategy="latest",
    ),
    "from a time that is too late": refused(
        Cause.TOO_LATE, "No offset matched", "no record at or after", subscribe="gates.a", startingTimestamp=LATE
    ),
    # Precedence.
    "a timestamp goes before all else at the start": rows(
        subscribe="gates.a",
        startingTimestamp=str(BEGIN_MS + 1),
        startingOffsetsByTimestamp=js(gates__a={"0": at(9)}),
        startingOffsets="latest",
    ),
    # Transactions.
    "committed": rows(subscribe="transactions,open", kafka_isolation_level="read_committed"),
    # Data loss.
    "a start below the log start": refused(
        Cause.LOSS,
        "may have been lost",
        "the log starts at 40",
        assign=js(trimmed=[0]),
        startingOffsets=js(trimmed={"0": 7}),
    ),
    "a start below the log start, no matter": rows(
        subscribe="trimmed", startingOffsets=js(trimmed={"0": 7, "1": 0, "2": 45}), failOnDataLoss="false"
    ),
    "an end before its start": refused(
        Cause.LOSS,
        "Beginning offset 30 is after the ending offset 20",
        "the start 30 lies after the end 20",
        assign=js(flights=[0]),
        startingOffsets=js(flights={"0": 30}),
        endingOffsets=js(flights={"0": 20}),
    ),
    # Missing topics and partitions.
    "a missing topic": refused(
        Cause.MISSING, "UnknownTopicOrPartition", "nowhere not found", subscribe="flights,nowhere"
    ),
    "a missing partition": differing("a missing partition", tidelog="flights-7 not found", assign=js(flights=[1, 7])),
    # Maps with too few or too many names.
    "a partition missing at the start": refused(
        Cause.OPTION,
        "don't match what are assigned",
        "The starting offsets must name exactly",
        subscribe="flights",
        startingOffsets=js(flights={"0": 5}),
    ),
    # Splitting.
    "many tasks": rows(subscribe="flights,trimmed", minPartitions="4", includeHeaders="true"),
    # Options without effect.
    "a misspelt option": differing(
        "unknown options", tidelog="did you mean 'startingOffsets'", subscribe="gates.a", startingOffset="earliest"
    ),
    "a consumer's setting that Spark keeps for itself": differing(
        "`kafka.…` options", kafka="not supported", subscribe="gates.a", kafka_auto_offset_reset="earliest"
    ),
}
