"""Totals of retention summaries: of a log, of a topic's logs, of all, and the bytes that are freed over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tidelog.inspect.retention.summary import Keeper, LogRetention, Share

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS
_NOTHING = Share()


class Deletions(NamedTuple):
    """Later deletions by time, as columns with ascending moments (ms): the segments and the bytes that go then."""

    moments: NDArray[np.int64]
    segments: NDArray[np.int64]
    bytes: NDArray[np.int64]

    @classmethod
    def of(cls, goes: Iterable[tuple[int, int, int]]) -> Self:
        columns = np.array(list(goes), np.int64).reshape(-1, 3).T
        return cls(*columns)._by_moment()

    @classmethod
    def concat(cls, parts: Sequence[Deletions]) -> Self:
        if not parts:
            return cls.of(())
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))._by_moment()

    def until(self, moment_ms: int) -> Share:
        end = int(np.searchsorted(self.moments, moment_ms, side="right"))
        return Share(int(self.segments[:end].sum()), int(self.bytes[:end].sum()))

    def _by_moment(self) -> Self:
        """Return one row for each moment, in ascending order."""
        moments, rows = np.unique(self.moments, return_inverse=True)
        return type(self)(moments, _sums(rows, self.segments, len(moments)), _sums(rows, self.bytes, len(moments)))


def _sums(rows: NDArray[np.intp], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, rows, values)
    return sums


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RetentionTotals:
    """The sums over some logs. ``day`` and ``week`` include the next check's segments; ``deletions`` does not."""

    logs: Sequence[LogRetention]
    kept: Mapping[Keeper, Share]
    day: Share
    week: Share
    deletions: Deletions
    deleted_files: Share
    unfinished_files: Share

    @property
    def topic(self) -> str:
        """The topic of the first log."""
        return self.logs[0].partition.topic

    @property
    def total(self) -> Share:
        return sum(self.kept.values(), _NOTHING)

    @property
    def next_check(self) -> Share:
        return self.kept.get(Keeper.NEXT_CHECK, _NOTHING)

    @property
    def for_ever(self) -> Share:
        """The segments that neither time nor appends delete."""
        return sum((share for keeper, share in self.kept.items() if keeper.is_for_ever), _NOTHING)

    @property
    def first_goes_at_ms(self) -> int | None:
        """The first later moment at which time deletes a segment."""
        return int(self.deletions.moments[0]) if len(self.deletions.moments) else None


def totals_of_log(log: LogRetention, now_ms: int) -> RetentionTotals:
    deletions = Deletions.of(log.goes)
    already = log.kept.get(Keeper.NEXT_CHECK, _NOTHING)
    return RetentionTotals(
        logs=(log,),
        kept=log.kept,
        day=already + deletions.until(now_ms + DAY_MS),
        week=already + deletions.until(now_ms + WEEK_MS),
        deletions=deletions,
        deleted_files=log.deleted_files,
        unfinished_files=log.unfinished_files,
    )


def added_up(parts: Sequence[RetentionTotals]) -> RetentionTotals:
    """Return the totals of several together."""
    kept: dict[Keeper, Share] = {}
    for part in parts:
        for keeper, share in part.kept.items():
            kept[keeper] = kept.get(keeper, _NOTHING) + share
    return RetentionTotals(
        logs=[log for part in parts for log in part.logs],
        kept=kept,
        day=sum((part.day for part in parts), _NOTHING),
        week=sum((part.week for part in parts), _NOTHING),
        deletions=Deletions.concat([part.deletions for part in parts]),
        deleted_files=sum((part.deleted_files for part in parts), _NOTHING),
        unfinished_files=sum((part.unfinished_files for part in parts), _NOTHING),
    )


def by_topic(logs: Iterable[RetentionTotals]) -> list[RetentionTotals]:
    """Return the totals of each topic, with the largest number of soon freed bytes first."""
    ordered = sorted(logs, key=lambda totals: totals.logs[0].partition)
    found = [added_up(list(group)) for _, group in groupby(ordered, key=lambda totals: totals.topic)]
    return sorted(found, key=freed_order)


def freed_order(totals: RetentionTotals) -> tuple[int, ...]:
    """Return the sort key: bytes of the next check, of a day, of a week, and all bytes, each descending."""
    shares = (totals.next_check, totals.day, totals.week, totals.total)
    return tuple(-share.bytes for share in shares)


class Step(NamedTuple):
    """A deletion of segments. ``total`` counts the freed bytes up to it."""

    at_ms: int
    segments: int
    bytes: int
    total: int


def freed_steps(totals: RetentionTotals, now_ms: int, horizon_ms: int, most: int) -> list[Step]:
    """Return the deletions from now, where the next check is, to the end of the horizon.

    If there are more than ``most``, those close to each other become one step at the time of the last one.
    """
    moments, segments, sizes = totals.deletions
    end = int(np.searchsorted(moments, now_ms + horizon_ms, side="right"))
    moments, segments, sizes = moments[:end], segments[:end], sizes[:end]
    check = totals.next_check
    room = most - bool(check.count)
    if end > room:
        slots = (moments - now_ms) // -(-(horizon_ms + 1) // room)
        lasts = np.flatnonzero(np.append(np.diff(slots) != 0, True))
        rows = np.searchsorted(lasts, np.arange(end))
        moments, segments, sizes = moments[lasts], _sums(rows, segments, len(lasts)), _sums(rows, sizes, len(lasts))
    steps = [Step(now_ms, check.count, check.bytes, check.bytes)] if check.count else []
    running = check.bytes
    for at, count, size in zip(moments.tolist(), segments.tolist(), sizes.tolist(), strict=True):
        running += size
        steps.append(Step(at, count, size, running))
    return steps
