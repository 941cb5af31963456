"""Streams for both sources: options, a change between two runs, and the result of each run.

Each mix has its own topic: partition 0 has 50 records, 1 has 20, 2 has none. As in ``mixes``, a mix without words gives
rows. Words belong to the second run if there is a change before it, otherwise to the first.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from spark.differential.mixes import Cause, js, named
from spark.differential.scene import BEGIN_MS

SIZES = (50, 20, 0)
TOPIC = "TOPIC"
"""A placeholder for the mix's topic in the values of options."""


class Between(enum.Enum):
    """The change between a query's two runs."""

    NOTHING = enum.auto()
    """The mix has only one run."""
    GROWTH = enum.auto()
    """Each partition gets ten more records."""
    NEW_PARTITION = enum.auto()
    """Each partition gets ten more records, and a new partition gets ten."""
    DELETED_RECORDS = enum.auto()
    """Each partition gets ten more records, and then all except the last five are deleted."""
    NEW_TOPIC = enum.auto()
    """The topic is deleted and created again, with ten records in each partition."""
    DELETED_TOPIC = enum.auto()
    """The mix's second topic, which has records too, is deleted."""
    DELETED_TOPICS = enum.auto()
    """Both topics are deleted."""


@dataclass(frozen=True, slots=True)
class StreamMix:
    options: Mapping[str, str]
    between: Between = Between.NOTHING
    available_now: bool = False
    cause: Cause | None = None
    kafka: str = ""
    tidelog: str = ""
    differs: str = ""


def gives(between: Between = Between.GROWTH, *, available_now: bool = False, **options: str) -> StreamMix:
    return StreamMix(_with_topic(options), between, available_now)


def refused(cause: Cause, kafka: str, tidelog: str, between: Between = Between.NOTHING, **options: str) -> StreamMix:
    return StreamMix(_with_topic(options), between, False, cause, kafka, tidelog)


def differing(row: str, between: Between = Between.NOTHING, *, tidelog: str, **options: str) -> StreamMix:
    return StreamMix(_with_topic(options), between, tidelog=tidelog, differs=row)


def _with_topic(options: Mapping[str, str]) -> dict[str, str]:
    given = named(options)
    return given if "subscribePattern" in given or "assign" in given else {"subscribe": TOPIC} | given


SHARED_OUT = gives(startingOffsets="earliest", maxOffsetsPerTrigger="30")
STREAM_MIXES: Mapping[str, StreamMix] = {
    "an end": refused(Cause.OPTION, "not valid in streaming", "is not allowed in a stream", endingOffsets="latest"),
}
MORE_STREAM_MIXES: Mapping[str, StreamMix] = {
    "from the latest, unless told otherwise": gives(),
    "all at once, then what is new": gives(startingOffsets="earliest", includeHeaders="true"),
    "shared out by what waits": SHARED_OUT,
    "a share below one": gives(
        Between.NOTHING, startingOffsets=js(TOPIC={"0": 0, "1": 19, "2": 0}), maxOffsetsPerTrigger="20"
    ),
    "from offsets": gives(startingOffsets=js(TOPIC={"0": 45, "1": -1, "2": -2})),
    "from a time on": gives(startingTimestamp=str(BEGIN_MS + 15), startingOffsetsByTimestampStrategy="latest"),
    "from a time that is too late": refused(
        Cause.TOO_LATE, "No offset matched", "no record at or after", startingTimestamp=str(BEGIN_MS + 15)
    ),
    "a new partition": gives(Between.NEW_PARTITION, startingOffsets="earliest", maxOffsetsPerTrigger="50"),
    "some partitions": gives(Between.NEW_PARTITION, assign=js(TOPIC=[0, 1]), startingOffsets="earliest"),
    "all there is": gives(startingOffsets="earliest", available_now=True),
    "the least that makes a batch": gives(startingOffsets="earliest", minOffsetsPerTrigger="500"),
    "records deleted before they were read": refused(
        Cause.LOSS, "may have been lost", "the log starts at", Between.DELETED_RECORDS, startingOffsets="earliest"
    ),
    "records deleted before they were read, no matter": gives(
        Between.DELETED_RECORDS, startingOffsets="earliest", failOnDataLoss="false"
    ),
    "a topic made anew": refused(
        Cause.LOSS, "may have been lost", "went back from 50 to 10", Between.NEW_TOPIC, startingOffsets="earliest"
    ),
    "a topic of a pattern deleted": refused(
        Cause.LOSS,
        "may have been lost",
        "is gone",
        Between.DELETED_TOPIC,
        subscribePattern="^TOPIC",
        startingOffsets="earliest",
    ),
    "all topics of a pattern deleted": differing(
        "a stream whose topics are all gone",
        Between.DELETED_TOPICS,
        tidelog="is gone",
        subscribePattern="^TOPIC",
        startingOffsets="earliest",
    ),
    "an end by time": differing(
        "`endingTimestamp` in a stream", tidelog="is not allowed in a stream", endingTimestamp="5"
    ),
    "ends by time": refused(
        Cause.OPTION,
        "not valid in streaming",
        "is not allowed in a stream",
        endingOffsetsByTimestamp=js(TOPIC={"0": 5}),
    ),
    "the least above the most": refused(
        Cause.OPTION,
        "minOffset",
        "'minOffsetsPerTrigger' .30. is higher",
        minOffsetsPerTrigger="30",
        maxOffsetsPerTrigger="20",
    ),
    "a limit that is no number": refused(Cause.OPTION, "many", "maxOffsetsPerTrigger", maxOffsetsPerTrigger="many"),
    "a delay that is none": refused(
        Cause.OPTION, "soon|time", "maxTriggerDelay", minOffsetsPerTrigger="3", maxTriggerDelay="soon"
    ),
    "a partition missing at the start": refused(
        Cause.OPTION, "must specify all TopicPartitions", "must name exactly", startingOffsets=js(TOPIC={"0": 5})
    ),
    "a missing topic": refused(Cause.MISSING, "UnknownTopicOrPartition", "not found", subscribe="nowhere"),
}
"""The mixes that a quick run skips."""
