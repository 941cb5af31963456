"""The measurement: both sides take turns, so that other work on the machine affects both alike."""

from __future__ import annotations

import enum
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.worker import Done
from real_kafka.java import NEWEST

PEER: Final = f"Kafka {NEWEST}"


class Unit(enum.StrEnum):
    """The unit of a case's figures, and their name in results."""

    SECONDS = "seconds"
    MEGABYTES = "megabytes"
    PERCENT = "percent"
    CPU_SECONDS = "cpu_seconds_a_gb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The seconds of each run, in the runs' order, or figures of another unit."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A line of the table. ``peer`` and ``ours`` do the same piece of work once."""

    name: str
    ours: Callable[[], Done]
    peer: Callable[[], Done] | None = None
    peer_name: str = PEER
    target: float | None = None
    """The lowest allowed ratio of tidelog's speed to the peer's."""
    limit: float | None = None
    """The highest allowed median of ours: milliseconds, or in the case's unit."""
    floor: float | None = None
    """The lowest allowed speed of ours in megabytes a second."""
    unit: Unit = Unit.SECONDS
    runs: int | None = None
    """The number of runs. None means as many as requested."""
    most_warm_ups: int = 10
    """The most warm-ups. Long pieces of work are warm after few runs."""
    check: Callable[[], None] | None = None
    """A check that raises if the two sides' results differ. It runs after the first run of each."""
    note: Callable[[Times], str] | None = None
    """A function that returns further remarks on ours after all runs."""


def cpu_case(
    name: str,
    peer: list[Done],
    ours: list[Done],
    *,
    peer_name: str = PEER,
    target: float | None = None,
    runs: int | None = None,
) -> Case:
    """Return the case of the CPU times that the runs of the case before it have appended to both lists."""
    return Case(
        name=name,
        peer=peer.pop,
        ours=ours.pop,
        peer_name=peer_name,
        target=target,
        unit=Unit.CPU_SECONDS,
        runs=runs,
        most_warm_ups=0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a case. ``bytes`` and ``records`` are those of one run."""

    case: Case
    bytes: int
    records: int
    ours: Times
    peer: Times | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our speed divided by the peer's."""
        return None if self.peer is None else self.peer.median / self.ours.median


class MismatchError(Exception):
    """The two sides did not do the same work."""


def measure(case: Case, *, runs: int, warm_ups: int) -> Outcome:
    """Warm both sides up, then let them take turns ``runs`` times. The side that begins changes each time."""
    for _ in range(min(warm_ups, case.most_warm_ups)):
        if case.peer is not None:
            case.peer()
        case.ours()
    ours: list[Done] = []
    theirs: list[Done] = []
    sides = [(case.peer, theirs), (case.ours, ours)]
    for number in range(case.runs or runs):
        for side, done in sides:
            if side is not None:
                done.append(side())
        sides.reverse()  # the side that comes second meets the other one's unwritten pages
        if number == 0 and case.check is not None:
            case.check()
    _same(case, ours + theirs)
    times = Times(seconds=tuple(done.seconds for done in ours))
    return Outcome(
        case=case,
        bytes=ours[0].bytes,
        records=ours[0].records,
        ours=times,
        peer=Times(seconds=tuple(done.seconds for done in theirs)) if theirs else None,
        note="" if case.note is None else case.note(times),
    )


def _same(case: Case, runs: Sequence[Done]) -> None:
    amounts = {(done.bytes, done.records) for done in runs}
    if len(amounts) > 1:
        raise MismatchError(f"{case.name}: the runs did not do the same work, (bytes, records) = {sorted(amounts)}")
