"""The decisions of a stream, for both of Spark's protocols: the next batch's end, and its tasks.

One object lives as long as a run of the query. Spark writes each end down before it reads the batch. So a run after a
crash reads the same records again, and a sink that knows its batches has each of them once.

=================================  =================================================================================
call                               result
=================================  =================================================================================
``initial``                        the options' starting offsets, resolved once in a run
``next_end`` of a stream's first   the initial offset for every partition that begins at its end: Spark writes down
batch                              only ends, so otherwise the first ``latest`` would change after a restart
``next_end`` of later batches      the logs' ends (now, or at ``stop_at_present``), reduced by the limits
``splits``                         the tasks between two ends; between equal ends none, and no file is touched
=================================  =================================================================================

PySpark before 4.2 asks for an end without the stream's position. But when it continues from a checkpoint, it first asks
for the tasks between the last end and the same end. Spark's calls are:

==============  ====================================================  ==============================================
PySpark         a new query                                           a restarted query
==============  ====================================================  ==============================================
4.2 and newer   initial, next_end(initial), splits …                  [initial, splits of the unfinished batch,]
                                                                      next_end(last end), splits …
before          next_end(), initial, splits …                         splits(last end, last end), [as above,]
                                                                      next_end(), splits …
==============  ====================================================  ==============================================

Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tidelog.model import TopicPartition
from tidelog.spark.read.options import Bound, Subscription, SubscriptionKind, Until
from tidelog.spark.read.planner import Warn, plan
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.split import LogSplit
from tidelog.spark.stream.data_loss import batch_ranges, new_partitions
from tidelog.spark.stream.log_watch import LogWatch, Reach
from tidelog.spark.stream.stream_offsets import Offsets
from tidelog.spark.stream.stream_options import Pacing, StreamOptions, shared_out


class StreamProgress:
    def __init__(self, options: StreamOptions, *, clock: Callable[[], int], warn: Warn) -> None:
        """``clock`` returns the time in milliseconds."""
        self._options = options
        self._clock = clock
        self._warn = warn
        self._watch = LogWatch(options.read, warn)
        self._pacing = Pacing(options.limits)
        self._target: Mapping[TopicPartition, Reach] | None = None
        self._initial: Offsets | None = None
        self._begin_at_end: frozenset[TopicPartition] = frozenset()
        self._position: Offsets | None = None
        """The last end that was returned or that Spark named. The next batch begins there."""
        self._has_given_end = False
        self._planned: tuple[Offsets, Offsets, list[LogSplit]] | None = None
        self._latest: Offsets | None = None

    @property
    def latest(self) -> Offsets | None:
        """The offsets available when an end was last asked for."""
        return self._latest

    def stop_at_present(self) -> None:
        """Limit the stream to the records present now."""
        self._target = self._watch.look()

    def initial(self) -> Offsets:
        if self._initial is None:
            reaches = self._watch.look() if self._target is None else self._target
            self._initial = self._watch.starting()
            ends = {partition: reach.limit for partition, reach in reaches.items()}
            at_end = (partition for partition, offset in self._initial.items() if offset == ends.get(partition))
            self._begin_at_end = frozenset(at_end)
        return self._initial

    def next_end(self, start: Offsets | None = None, *, is_limited: bool = True) -> Offsets:
        """Return the end of the batch from ``start``, or ``start`` itself if the batch has to wait. ``start`` None
        means the end of the last batch."""
        if start is None:
            start = self.initial() if self._position is None else self._position
        is_first = self._position is None and start == self._initial
        reaches = self._watch.look() if self._target is None else self._target
        self._latest = {partition: reach.held(start.get(partition)) for partition, reach in reaches.items()}
        end = self._held_back(start, self._latest, reaches) if is_limited else self._latest
        if is_first:
            stay = self._begin_at_end
            end = {partition: start[partition] if partition in stay else offset for partition, offset in end.items()}
        self._has_given_end = True
        self._position = end
        return end

    def _held_back(self, start: Offsets, latest: Offsets, reaches: Mapping[TopicPartition, Reach]) -> Offsets:
        if self._target is None and self._pacing.waits(start, latest, self._clock()):
            return start
        most = self._options.limits.max_offsets
        if most is None:
            return latest
        starts = {partition: start.get(partition, reaches[partition].log_start) for partition in latest}
        return shared_out(most, starts, latest)

    def splits(self, start: Offsets, end: Offsets) -> list[LogSplit]:
        """Return the tasks of a batch. Raise OffsetOutOfRangeError or UnknownTopicOrPartitionError if data between the
        ends was lost."""
        self._position = end
        if start == end:
            return []
        if self._planned is None or self._planned[:2] != (start, end):
            self._planned = (start, end, self._plan(start, end))
        return self._planned[2]

    def _plan(self, start: Offsets, end: Offsets) -> list[LogSplit]:
        read = self._options.read
        new_starts: dict[TopicPartition, int] = {}
        new = new_partitions(start, end)
        if new:
            new_starts = {partition: reach.log_start for partition, reach in self._watch.look().items()}
        is_replay = not self._has_given_end and start == self._initial
        batch = batch_ranges(start, end, new_starts, replay=is_replay)
        batch.report(fail=read.fail_on_data_loss, warn=self._warn)
        if not batch.ranges:
            return []
        # The end stays, whatever the high watermark is now, so that a repeated batch has the same records.
        wanted = replace(
            read,
            subscription=Subscription(SubscriptionKind.ASSIGN, partitions=frozenset(batch.ranges)),
            starting=Bound(offsets={partition: first for partition, (first, _) in batch.ranges.items()}),
            ending=Bound(offsets={partition: last for partition, (_, last) in batch.ranges.items()}),
            until=Until.LOG_END,
        )
        return [_without_invalid_tails(split) for split in plan(wanted, Pruning(), self._warn, self._watch.states)]


def _without_invalid_tails(split: LogSplit) -> LogSplit:
    """Remove the bytes after the log end: they may become a batch, and every micro-batch would report them again."""
    return LogSplit(replace(piece, state=replace(piece.state, invalid_tail=None)) for piece in split.pieces)
