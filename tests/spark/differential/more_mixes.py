"""More combinations of options for a batch read. A quick run skips them."""

from __future__ import annotations

from collections.abc import Mapping

from spark.differential.mixes import LATE, Cause, Mix, at, differing, js, refused, rows
from spark.differential.scene import BEGIN_MS

MORE_MIXES: Mapping[str, Mix] = {
    # Topics and partitions.
    "one topic": rows(subscribe="flights"),
    "topics with blanks and gaps between": rows(subscribe=" flights ,, gates.a ,", includeHeaders="TRUE"),
    "partitions": rows(assign=js(flights=[0, 1], gates__a=[0])),
    "a pattern": rows(subscribePattern="gates\\.[a-z]"),
    "a pattern that matches nothing": rows(subscribePattern="nothing.*"),
    "an internal topic by its name": differing("internal topics", subscribe="__transaction_state"),
    # Offsets.
    "one record": rows(
        assign=js(flights=[0]), startingOffsets=js(flights={"0": 111}), endingOffsets=js(flights={"0": 112})
    ),
    "from the log end": rows(assign=js(flights=[0]), startingOffsets=js(flights={"0": 350})),
    "no record": rows(
        assign=js(flights=[0]), startingOffsets=js(flights={"0": 111}), endingOffsets=js(flights={"0": 111})
    ),
    "a log start above zero": rows(subscribe="trimmed"),
    "between two gaps": rows(
        subscribe="compacted", startingOffsets=js(compacted={"0": 3}), endingOffsets=js(compacted={"0": 155})
    ),
    # Timestamps.
    "from a time on": rows(subscribe="gates.a", startingTimestamp=str(BEGIN_MS + 2)),
    "up to a time of no record": rows(subscribe="flights", endingTimestamp=LATE),
    "up to a time before all": rows(subscribe="gates.a", endingTimestamp="0"),
    "from a time that is too late, strategy latest": rows(
        subscribe="gates.a", startingTimestamp=LATE, startingOffsetsByTimestampStrategy="LATEST"
    ),
    "from a time on, one partition empty": refused(
        Cause.TOO_LATE, "No offset matched", "no record at or after", subscribe="flights", startingTimestamp=str(at(5))
    ),
    "from a time on, one partition empty, strategy latest": rows(
        subscribe="flights", startingTimestamp=str(at(5)), startingOffsetsByTimestampStrategy="latest"
    ),
    "a time that the broker set": rows(subscribe="stamped", startingTimestamp=str(at(3600))),
    "from a time on, log start above zero": rows(assign=js(trimmed=[0, 2]), startingTimestamp=str(at(20))),
    # Precedence.
    "times by partition go before offsets": rows(
        subscribe="gates.a",
        startingOffsetsByTimestamp=js(gates__a={"0": BEGIN_MS + 3}),
        startingOffsets=js(gates__a={"0": 1}),
    ),
    "a timestamp goes before all else at the end": rows(
        subscribe="gates.a",
        endingTimestamp=str(BEGIN_MS + 2),
        endingOffsetsByTimestamp=js(gates__a={"0": 0}),
        endingOffsets="earliest",
    ),
    # Transactions.
    "uncommitted": rows(subscribe="transactions,open"),
    "committed, between offsets": rows(
        subscribe="transactions",
        kafka_isolation_level="read_committed",
        startingOffsets=js(transactions={"0": 15}),
        endingOffsets=js(transactions={"0": 50}),
    ),
    "committed, split": rows(subscribe="transactions", kafka_isolation_level="read_committed", minPartitions="5"),
    "committed, from a time of the open transaction": refused(
        Cause.TOO_LATE,
        "No offset matched",
        "no record at or after",
        subscribe="open",
        kafka_isolation_level="read_committed",
        startingTimestamp="0",
    ),
    # Data loss.
    "all of it deleted": refused(
        Cause.LOSS,
        "may have been lost",
        "the log starts at 50",
        assign=js(trimmed=[1]),
        startingOffsets=js(trimmed={"1": 10}),
    ),
    "an end below the log start": refused(
        Cause.LOSS,
        "may have been lost",
        "the log starts at 40",
        assign=js(trimmed=[0]),
        startingOffsets=js(trimmed={"0": 7}),
        endingOffsets=js(trimmed={"0": 20}),
    ),
    "an end below the log start, no matter": rows(
        assign=js(trimmed=[0]),
        startingOffsets=js(trimmed={"0": 7}),
        endingOffsets=js(trimmed={"0": 20}),
        failOnDataLoss="false",
    ),
    "an end past the log's": refused(
        Cause.LOSS,
        "may have been lost",
        "they end at 5",
        subscribe="gates.a",
        endingOffsets=js(gates__a={"0": 9}),
        kafkaConsumer_pollTimeoutMs="5000",
    ),
    "an end past the log's, no matter": rows(
        subscribe="gates.a",
        endingOffsets=js(gates__a={"0": 9}),
        kafkaConsumer_pollTimeoutMs="5000",
        failOnDataLoss="false",
    ),
    "an end past the last stable offset": refused(
        Cause.LOSS,
        "may have been lost",
        "they end at 76",
        subscribe="transactions",
        kafka_isolation_level="read_committed",
        endingOffsets=js(transactions={"0": 90}),
        kafkaConsumer_pollTimeoutMs="5000",
    ),
    "a start past the log end": refused(
        Cause.LOSS,
        "Beginning offset 351 is after the ending offset 350",
        "the start 351 lies after the end 350",
        assign=js(flights=[0]),
        startingOffsets=js(flights={"0": 351}),
    ),
    "the end's time before the start's": refused(
        Cause.LOSS,
        "Beginning offset 4 is after the ending offset 1",
        "the start 4 lies after the end 1",
        subscribe="gates.a",
        startingTimestamp=str(BEGIN_MS + 4),
        endingTimestamp=str(BEGIN_MS + 1),
    ),
    "an end before its start, no matter": differing(
        "an end before its start",
        kafka="Beginning offset 30 is after the ending offset 20",
        assign=js(flights=[0]),
        startingOffsets=js(flights={"0": 30}),
        endingOffsets=js(flights={"0": 20}),
        failOnDataLoss="false",
    ),
    # Missing topics and partitions.
    "a missing topic, no matter": differing(
        "a missing topic", kafka="UnknownTopicOrPartition", subscribe="gates.a,nowhere", failOnDataLoss="false"
    ),
    "a missing topic by partitions": refused(
        Cause.MISSING, "UnknownTopicOrPartition", "nowhere-0 not found", assign=js(flights=[1], nowhere=[0])
    ),
    "a missing partition, no matter": rows(assign=js(flights=[1, 7]), failOnDataLoss="false"),
    # Maps with too few or too many names.
    "a partition missing at the end": refused(
        Cause.OPTION,
        "don't match what are assigned",
        "The ending offsets must name exactly",
        subscribe="flights",
        endingOffsets=js(flights={"0": 5}),
        failOnDataLoss="false",
    ),
    "a partition missing among the times": refused(
        Cause.OPTION,
        "you didn't specify all the partitions",
        "The starting offsets must name exactly",
        subscribe="flights",
        startingOffsetsByTimestamp=js(flights={"0": 5}),
    ),
    "a topic too many": refused(
        Cause.OPTION,
        "don't match what are assigned",
        "The starting offsets must name exactly",
        subscribe="gates.a",
        startingOffsets=js(gates__a={"0": 1}, gates__b={"0": 1}),
    ),
    "a partition too many": refused(
        Cause.OPTION,
        "don't match what are assigned",
        "exactly",
        subscribe="gates.a",
        startingOffsets=js(gates__a={"0": 1, "1": 1}),
    ),
    # Contradictions.
    "all up to the earliest": refused(
        Cause.OPTION, "can't be earliest for batch", "can't be earliest", subscribe="flights", endingOffsets="earliest"
    ),
    "a partition from the latest": refused(
        Cause.OPTION,
        "can't be latest for batch",
        "can't be -1",
        subscribe="gates.a",
        startingOffsets=js(gates__a={"0": -1}),
    ),
    "two subscriptions": refused(
        Cause.OPTION, "Only one of the following options", "exactly one of", subscribe="flights", subscribePattern=".*"
    ),
    "no subscription": refused(Cause.OPTION, "One of the following options must be specified", "exactly one of"),
    "all from the latest": refused(
        Cause.OPTION, "can't be latest for batch", "can't be latest", subscribe="flights", startingOffsets="latest"
    ),
    "a partition up to the earliest": refused(
        Cause.OPTION,
        "can't be earliest for batch",
        "can't be -2",
        subscribe="gates.a",
        endingOffsets=js(gates__a={"0": -2}),
    ),
    # Invalid values.
    "topics of nothing": refused(Cause.OPTION, "No topics to subscribe", "names no topic", subscribe=" , "),
    "an empty pattern": refused(Cause.OPTION, "Pattern to subscribe is empty", "is empty", subscribePattern=" "),
    "a pattern that is none": refused(Cause.OPTION, "PatternSyntaxException", "subscribePattern", subscribePattern="("),
    "an assignment of nothing": refused(Cause.OPTION, "assign", "assign", assign=""),
    "an assignment that is no JSON": refused(Cause.OPTION, "assign", "assign", assign="flights"),
    "an assignment of the wrong shape": refused(Cause.OPTION, "Expected e.g.", "assign", assign='{"flights":{"0":1}}'),
    "an assignment cut short": refused(Cause.OPTION, "Expected e.g.", "assign", assign='{"flights":[0'),
    "an assignment of no topics": differing("an `assign` of nothing", tidelog="'assign' wants", assign="{}"),
    "an assignment of no partitions": differing(
        "an `assign` of nothing", tidelog="'assign' names no partition", assign='{"flights":[]}'
    ),
    "offsets of the wrong shape": refused(
        Cause.OPTION, "Expected e.g.", "endingOffsets", subscribe="flights", endingOffsets='{"flights":[1]}'
    ),
    "offsets that are no JSON": refused(
        Cause.OPTION, "Expected e.g.", "startingOffsets", subscribe="flights", startingOffsets="soon"
    ),
    "an offset that means nothing": refused(
        Cause.OPTION, "assert", "startingOffsets", subscribe="gates.a", startingOffsets=js(gates__a={"0": -3})
    ),
    "an offset that is no number": refused(
        Cause.OPTION, "Expected e.g.", "startingOffsets", subscribe="gates.a", startingOffsets='{"gates.a":{"0":"x"}}'
    ),
    "an offset in quotes": refused(
        Cause.OPTION, "Expected e.g.", "startingOffsets", subscribe="gates.a", startingOffsets='{"gates.a":{"0":"1"}}'
    ),
    "a partition that is no number": refused(
        Cause.OPTION, "Expected e.g.", "startingOffsets", subscribe="gates.a", startingOffsets='{"gates.a":{"x":1}}'
    ),
    "a number with blanks around it": refused(
        Cause.OPTION, "NumberFormat", "minPartitions", subscribe="gates.a", minPartitions=" 2 "
    ),
    "a word with blanks around it": refused(
        Cause.OPTION, "For input string", "failOnDataLoss", subscribe="gates.a", failOnDataLoss=" true "
    ),
    "a time that is no number": refused(
        Cause.OPTION, "soon", "startingTimestamp", subscribe="gates.a", startingTimestamp="soon"
    ),
    "a time before 1970": refused(
        Cause.OPTION, "UnsupportedVersion", "startingTimestamp", subscribe="gates.a", startingTimestamp="-77"
    ),
    "times that are no JSON": refused(
        Cause.OPTION, "Expected e.g.", "ByTimestamp", subscribe="gates.a", endingOffsetsByTimestamp="1700000000000"
    ),
    "a strategy that is none": refused(
        Cause.OPTION,
        "strategy|Strategy|No value found",
        "startingOffsetsByTimestampStrategy",
        subscribe="gates.a",
        startingTimestamp="0",
        startingOffsetsByTimestampStrategy="nearest",
    ),
    "a failOnDataLoss that is none": refused(
        Cause.OPTION, "perhaps", "failOnDataLoss", subscribe="gates.a", failOnDataLoss="perhaps"
    ),
    "an includeHeaders that is none": refused(
        Cause.OPTION, "perhaps", "includeHeaders", subscribe="gates.a", includeHeaders="perhaps"
    ),
    "an isolation level that is none": refused(
        Cause.OPTION, "isolation.level", "isolation.level", subscribe="gates.a", kafka_isolation_level="serializable"
    ),
    # Splitting.
    "small tasks": rows(subscribe="flights", maxRecordsPerPartition="60"),
    "many and small tasks between offsets": rows(
        assign=js(flights=[0]),
        minPartitions="3",
        maxRecordsPerPartition="50",
        startingOffsets=js(flights={"0": 33}),
        endingOffsets=js(flights={"0": 299}),
    ),
    "no tasks": refused(
        Cause.OPTION, "minPartitions must be positive", "minPartitions", subscribe="flights", minPartitions="0"
    ),
    "a number of tasks that is none": refused(
        Cause.OPTION, "many", "minPartitions", subscribe="flights", minPartitions="many"
    ),
    "tasks of nothing": refused(
        Cause.OPTION,
        "maxrecordsperpartition must be positive",
        "maxRecordsPerPartition",
        subscribe="flights",
        maxRecordsPerPartition="-1",
    ),
    # Options without effect.
    "what steers a consumer": rows(
        subscribe="gates.a",
        groupIdPrefix="mine",
        kafkaConsumer_pollTimeoutMs="60000",
        kafka_max_poll_records="3",
    ),
    "limits of a stream": rows(subscribe="gates.a", maxOffsetsPerTrigger="2", minOffsetsPerTrigger="1"),
    "a group of one's own": rows(subscribe="gates.a", kafka_group_id="mine"),
    "an unknown option": rows(subscribe="gates.a", colour="green"),
    "an isolation level in another case": differing(
        "`kafka.…` options", kafka="isolation.level", subscribe="transactions", kafka_isolation_level="READ_COMMITTED"
    ),
    "an isolation level's key in another case": rows(subscribe="transactions", kafka_ISOLATION_level="read_committed"),
    "a class intersection": differing(
        "`subscribePattern`", tidelog="subscribePattern", subscribePattern="[a-z&&[^f]]ates.*"
    ),
}
