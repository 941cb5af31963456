"""The model of many logs, a dict of lists, with which the state machine compares the manager."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.model import TopicPartition


@dataclass(slots=True)
class ModelLog:
    """The log of a partition. No event loses a record below ``flushed``."""

    written: dict[int, bytes] = field(default_factory=dict)
    """Values by offset, including those below the log start, because a crash may bring them back."""
    batches: list[int] = field(default_factory=list)
    """Base offsets of the batches."""
    start: int = 0
    end: int = 0
    flushed: int = 0
    epoch: int = 0

    @property
    def values(self) -> list[tuple[int, bytes]]:
        return [(offset, value) for offset, value in sorted(self.written.items()) if offset >= self.start]

    def append(self, values: list[bytes]) -> None:
        self.batches.append(self.end)
        for value in values:
            self.written[self.end] = value
            self.end += 1

    def truncate(self, offset: int) -> None:
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)
        self.flushed = min(self.flushed, self.end)
        self._forget()

    def begin_at(self, offset: int) -> None:
        self.written.clear()
        self.batches.clear()
        self.start = self.end = self.flushed = offset

    def adopt(self, start: int, end: int, found: dict[int, bytes]) -> None:
        """Take over a crash's checked result. Records that were not flushed may be missing in between too."""
        below = {offset: value for offset, value in self.written.items() if offset < start}
        self.start, self.end, self.written = start, end, below | found
        self._forget()

    def _forget(self) -> None:
        self.written = {offset: value for offset, value in self.written.items() if offset < self.end}
        self.batches = [base for base in self.batches if base < self.end]


Model = dict[TopicPartition, ModelLog]
